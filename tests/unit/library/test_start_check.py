"""What `inspect` and `restore` say of a start: whatever a driver asks before Spark is asked here, by the same code."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from effectively_once import Pipeline, Stateful, ToKafka
from effectively_once.driver import driver, preflight
from effectively_once.driver.broker_probe import TopicFacts
from effectively_once.driver.control import State, Wish, ask
from effectively_once.driver.driver import Driver
from effectively_once.driver.preflight import Preflight
from effectively_once.driver.spark_state import PARTITIONS
from effectively_once.errors import ChainError, CheckpointError, ControlError, SettingsError, SinkError, VersionError
from effectively_once.ledger import chain, interventions
from effectively_once.ledger.as_shown import AsShown
from effectively_once.ledger.delta import Span
from effectively_once.ledger.head import Head
from effectively_once.ledger.held import Held
from effectively_once.ledger.objects import Delete, Get, Put, Request, run
from effectively_once.operate.inspect import inspector, start_check
from effectively_once.operate.inspect.inspection_text import lines
from effectively_once.operate.inspect.inspector import Inspector
from effectively_once.operate.inspect.start_check import StartCheck
from effectively_once.pipeline.job import Job
from effectively_once.sinks.publish import Mark
from tests.settings import pipeline_settings
from tests.unit.ledger.samples import LAYOUT, SETTINGS, WHEEL, advanced, declaration, record_of, taken
from tests.unit.library.test_stateful import Folder

COLUMNS = pa.schema([("user", pa.string()), ("n", pa.int64())])
PLAIN = Pipeline(lambda frame: frame, COLUMNS, rows=(ToKafka("accepted"),))
UNASKED = "not asked, as it takes writes or Spark: what the store makes of conditional writes, the transform"
"""A start refuses for these too: the verdict promises nothing that nobody has asked."""
STATEFUL = replace(PLAIN, stateful=Stateful(lambda frame: frame, COLUMNS, by="user", to=ToKafka("per_user")))
WELL = TopicFacts(copies=3, in_sync=3, min_insync=2, retention_ms=-1, retention_bytes=-1)
EPOCHS = 3


class Stand:
    """A pipeline in memory that recorded three epochs, and a checkpoint of their batches. Its servers are in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, pipeline: Pipeline = PLAIN) -> None:
        self.folder = Folder(EPOCHS, EPOCHS)
        self.folder.put("metadata", '{"id": "x"}')
        self.store: Any = self.folder.store
        monkeypatch.setattr(self.store, "list_objects", lambda _: (), raising=False)
        monkeypatch.setattr(self.store, "address", SimpleNamespace(bucket="data"), raising=False)
        held = advanced(self.store, taken(self.store), EPOCHS - 1)
        self.held = run(chain.declare(LAYOUT, held, declaration(EPOCHS - 1), None, 0), self.store)
        self.held = run(chain.record(LAYOUT, self.held, record_of(declaration(EPOCHS - 1))), self.store)
        self.job = Job(pipeline, pipeline_settings(pipeline="counts", **SETTINGS))
        self.facts = dict.fromkeys(["events", "counts.accepted", "counts.accepted.progress"], WELL)
        self.source: Any = SimpleNamespace(
            same_topic=lambda *_: None,
            first_offsets=lambda: {"events": {"0": 0, "1": 0}},
            topic_ids=lambda: {"events": "id"},
        )
        monkeypatch.setattr(Preflight, "surroundings", lambda _: {"events": "id"})
        monkeypatch.setattr(Preflight, "probe", lambda _: None)
        monkeypatch.setattr(preflight, "read_seen_mark", lambda *_: Mark(self.held.head.last_recorded, 1, 0, ""))
        monkeypatch.setattr(preflight, "ask", lambda *_: self.facts)
        monkeypatch.setattr(preflight, "refuse_changed", lambda *_: None)
        monkeypatch.setattr(start_check, "KafkaSource", lambda _: self.source)
        monkeypatch.setattr(driver, "S3ObjectStore", lambda _: self.store)
        monkeypatch.setattr(driver, "KafkaSource", lambda _: self.source)

    def checked(self, wheel: str | None = None) -> StartCheck:
        """Ask without a driver, and change nothing."""
        before = dict(self.store.objects)
        found = start_check.start_check(self.job, self.store, wheel)
        assert self.store.objects == before
        return found

    def started(self, wheel: str = WHEEL) -> Driver:
        """Start a driver, up to where it needs Spark."""
        made = Driver(self.job, wheel)
        made.check()
        made.take_over()
        return made

    def assert_refused(self, kind: type[Exception], what: str, wheel: str = WHEEL) -> None:
        """Assert that both say the same."""
        found = self.checked(wheel)
        assert (found.verdict, type(found.refusal)) == ("refused", kind), found
        assert what in str(found.refusal)
        with pytest.raises(kind) as refused:
            self.started(wheel)
        assert str(refused.value) == str(found.refusal)

    def declare(self) -> None:
        """Pin the next epoch."""
        self.held = run(chain.declare(LAYOUT, self.held, declaration(EPOCHS), None, 0), self.store)

    def put(self, head: Head) -> None:
        """Let another head be there."""
        self.store.objects[LAYOUT.head] = head.encode()

    def wish(self, state: State, end: int = 0) -> None:
        """Ask of drivers what operators ask."""
        ends = {"events": {"0": (0, end)}} if state is State.DRAINING else None
        run(ask(LAYOUT, Wish.make(state, ends)), self.store)


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> Stand:
    return Stand(monkeypatch)


@pytest.fixture
def stateful(monkeypatch: pytest.MonkeyPatch) -> Stand:
    return Stand(monkeypatch, STATEFUL)


def test_where_nothing_is_in_the_way_a_driver_would_start(stand: Stand, stateful: Stand) -> None:
    for each, more in ((stand, ""), (stateful, ", the stateful query")):
        assert each.checked() == StartCheck(f"a driver would start; {UNASKED}{more}")
        each.started()


def test_before_the_first_driver_one_would_start(stand: Stand) -> None:
    stand.store.answer(Delete(LAYOUT.head))
    stand.held = Held(Head(pipeline="counts", generation=1, owner="", settings={}), "")
    assert stand.checked() == StartCheck(f"a driver would start; {UNASKED}")


def test_every_check_of_a_drivers_start_is_asked_but_what_it_tries_by_writing(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that a driver gets, and `inspect` does not, would make its answer a promise that nobody keeps."""
    asked: list[str] = []

    class Noted(Preflight):
        def __getattribute__(self, name: str) -> Any:
            if callable(getattr(Preflight, name, None)) and not name.startswith("_"):
                asked.append(name)
            return super().__getattribute__(name)

    monkeypatch.setattr(start_check, "Preflight", Noted)
    monkeypatch.setattr(driver, "Preflight", Noted)
    stand.checked()
    without = [*asked]
    asked.clear()
    stand.started()
    assert set(asked) - set(without) == {"probe"}
    assert set(without) - set(asked) == {"find_stalled"}


@pytest.mark.parametrize("topic", ["counts.accepted", "counts.accepted.progress"])
def test_a_sink_that_could_commit_nothing_is_a_refusal(stand: Stand, topic: str) -> None:
    stand.facts[topic] = replace(WELL, copies=1, in_sync=1)
    stand.assert_refused(SinkError, "min.insync.replicas is 2 and a partition has 1 replicas")


def test_a_sink_that_can_commit_nothing_now_is_told_and_no_refusal(stand: Stand) -> None:
    """Its replicas may come back, and a driver waits for them. The input is read all the same."""
    stand.facts |= {"counts.accepted": replace(WELL, in_sync=1), "events": replace(WELL, in_sync=1)}
    assert stand.checked() == StartCheck(
        f"a driver would start; topic counts.accepted takes no write until more of its replicas are in sync; {UNASKED}"
    )
    stand.started()


def test_without_the_checkpoint_that_holds_the_state_of_spark_a_start_is_refused(stateful: Stand) -> None:
    """`test_stateful.py` has each way in which it does not fit."""
    stateful.folder.delete("commits/2", "commits/1")
    stateful.assert_refused(
        CheckpointError, "the state of the pipeline is in Spark's checkpoint, and commits/1 is missing"
    )


def test_state_that_began_with_other_settings_is_a_refusal(stateful: Stand) -> None:
    stateful.job = Job(STATEFUL, stateful.job.settings.model_copy(update={"shards": 4}))
    stateful.assert_refused(SettingsError, f"{PARTITIONS} was 2 when the state began and is 4 now")


def test_a_pipeline_whose_state_is_in_the_chain_starts_without_a_checkpoint(stand: Stand) -> None:
    stand.folder.delete("offsets/0", "offsets/1", "offsets/2")
    assert stand.checked() == StartCheck(f"a driver would start; {UNASKED}")


def test_spans_that_contradict_each_other_are_a_refusal(stand: Stand) -> None:
    head = stand.held.head
    overlapping = [
        record_of(declaration(n)).model_copy(update={"merged": {"ids": {"0": Span(first=first, last=last)}}})
        for n, (first, last) in enumerate(((0, 0), (0, 1), (1, 2)))
    ]
    stand.put(head.model_copy(update={"tail": tuple(overlapping)}))
    stand.assert_refused(ChainError, "merged deltas of epochs 1 to 2 overlap others")


def test_a_declared_epoch_is_repeated_first_and_nobody_knows_how_that_ends(stand: Stand) -> None:
    stand.declare()
    assert stand.checked() == StartCheck(f"a driver would start; epoch 3 is declared and is repeated first; {UNASKED}")
    stand.assert_refused(VersionError, "epoch 3 was declared by wheel aaaaaaaaaaaa, this is wheel b", wheel="b" * 64)


def test_an_epoch_that_is_to_be_repaired_belongs_to_its_version_too(stand: Stand) -> None:
    stand.declare()
    held = run(interventions.finish_as_shown(LAYOUT, stand.held, {"0": AsShown(rows=1)}, WHEEL), stand.store)
    declared = held.head.declared
    assert declared is not None
    stand.held = run(chain.record(LAYOUT, held, record_of(declared)), stand.store)
    assert stand.checked() == StartCheck(f"a driver would start; epoch 4 repairs epoch 3 first; {UNASKED}")
    stand.wish(State.DRAINING, end=1)
    assert stand.checked().verdict == (
        f"a driver would start; epoch 4 repairs epoch 3 first; the pipeline is draining; {UNASKED}"
    )
    stand.assert_refused(VersionError, "epoch 4 was declared by wheel aaaaaaaaaaaa, this is wheel b", wheel="b" * 64)


def test_of_a_pipeline_that_is_drained_a_driver_ends_at_once(stand: Stand) -> None:
    stand.wish(State.DRAINING, end=30)
    found = stand.checked()
    assert found.refusal is None
    wish = "draining, topic events to 0:30, asked for at "
    assert found.verdict.startswith(f"a driver would end at once: the pipeline is drained ({wish}")
    assert found.verdict.endswith("). `effectively-once resume` lets drivers run again.")
    assert stand.started().find_finished_drain() is not None


def test_one_that_is_still_draining_or_paused_starts(stand: Stand) -> None:
    stand.wish(State.DRAINING, end=31)
    assert stand.checked() == StartCheck(f"a driver would start; the pipeline is draining; {UNASKED}")
    stand.wish(State.PAUSED)
    assert stand.checked() == StartCheck(f"a driver would start; the pipeline is paused; {UNASKED}")
    stand.wish(State.RUNNING)
    assert stand.checked() == StartCheck(f"a driver would start; {UNASKED}")


def test_a_driver_tells_whether_it_is_paused(stand: Stand) -> None:
    for state, paused in ((State.PAUSED, 1), (State.RUNNING, 0)):
        stand.wish(state)
        started = stand.started()
        assert started.find_finished_drain() is None
        told = started.metrics.registry.get_sample_value("effectively_once_paused", {"pipeline": "counts"})
        assert told == paused


def test_a_wish_that_nobody_can_read_is_a_refusal(stand: Stand) -> None:
    stand.store.answer(Put(LAYOUT.control, b"no wish", None))
    found = stand.checked()
    assert (found.verdict, type(found.refusal)) == ("refused", ControlError)
    with pytest.raises(ControlError, match="what is asked of drivers cannot be read"):
        stand.started().find_finished_drain()


def test_a_driver_at_work_that_goes_on_meanwhile_is_no_refusal(stateful: Stand) -> None:
    """Its checkpoint is ahead of a head that was read before."""
    end, ahead = stateful.held.head, iter(range(EPOCHS, 100))

    def go_on(request: Request) -> None:
        if isinstance(request, Get) and request.key == LAYOUT.head:
            batch = next(ahead)
            stateful.put(end.model_copy(update={"sequence": end.sequence + batch}))
            stateful.folder.offsets(batch, batch)
            stateful.folder.put(f"commits/{batch}", 'v2\n{"nextBatchWatermarkMs":0}')

    stateful.store.before = go_on
    assert start_check.start_check(stateful.job, stateful.store) == StartCheck("a driver is at work")


def test_inspect_tells_that_nothing_goes_on_without_the_checkpoint(
    stateful: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said that a new lineage would begin, and that a driver would start."""
    stateful.folder.delete("offsets/0", "offsets/1", "offsets/2")
    monkeypatch.setattr(inspector, "S3ListingStore", lambda *_: stateful.store)
    monkeypatch.setattr(inspector, "read_seen_mark", lambda *_: None)
    found = Inspector(stateful.job).look()
    told = {line.split()[0]: line for line in lines(found)}
    assert told["checkpoint"].endswith("it does not fit the chain: nothing goes on without it")
    assert told["start"] == "start       refused"
    assert "start: the state of the pipeline is in Spark's checkpoint, and it is gone" in told["refusal"]
    assert found.as_json()["checkpoint"]["holds_state"]
