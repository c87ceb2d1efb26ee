"""A stateful query: its declaration, the first step before it, what its checkpoint must be; tables and memory."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark import TaskContext

from effectively_once import Count, Pipeline, RecordedStep, Stateful, ToFiles, ToKafka, ToTable, Windowed
from effectively_once.driver.checkpoints import Checkpoint
from effectively_once.driver.spark_state import PARTITIONS
from effectively_once.driver.stateful_plan import _ByShard, state_error
from effectively_once.epoch.shard_step import ShardStep
from effectively_once.epoch.stateful_step import (
    BATCH_ID,
    PROPERTY,
    Errand,
    FirstStep,
    Notes,
    again,
    decide,
    judge_lateness,
    notes_of,
    spark_delay_ms,
    spark_watermark_ms,
)
from effectively_once.epoch.whole_input import CLOSING
from effectively_once.errors import ChainError, CheckpointError, InputError, SettingsError, StepError
from effectively_once.ledger.delta import Delta
from effectively_once.ledger.head import Head
from effectively_once.ledger.objects import Delete, Put
from effectively_once.pipeline.columns import DEAD_LETTER
from effectively_once.pipeline.job import Job
from effectively_once.state.lateness import Windows
from tests.depth import examples
from tests.settings import pipeline_settings
from tests.unit.ledger.samples import LAYOUT, declaration, record_of
from tests.unit.library.listed_store import ListedStore
from tests.unit.library.one_epoch import ROWS, Place, table

COLUMNS = pa.schema([("user", pa.string()), ("amount", pa.int64())])
RESULTS = pa.schema([("user", pa.string()), ("n", pa.int64())])


def query(frame: Any) -> Any:
    return frame


STATEFUL = Stateful(query, RESULTS, by="user", to=ToKafka("per_user", key="user"))
PIPELINE = Pipeline(
    query,
    COLUMNS,
    rows=(ToKafka("accepted", key="user"), ToFiles("archive")),
    stateful=STATEFUL,
    window_ms=100,
    lateness_ms=0,
)


def stateful(**changes: Any) -> dict[str, Any]:
    return {"stateful": replace(STATEFUL, **changes)}


def results(*more: tuple[str, Any]) -> pa.Schema:
    return pa.schema([*RESULTS, *more])


STEP = RecordedStep("rated", query, pa.schema([("price", pa.int64())]))
REFUSED: list[Any] = [
    ({"windows": (Windowed("user", {"n": Count()}, ToKafka("w")),)}, "a pipeline has windows or a stateful query"),
    ({"recorded": STEP}, "a pipeline has a recorded step or a stateful query"),
    ({"columns": pa.schema([*COLUMNS, ("Event_time", pa.string())])}, "column 'event_time' is what the stateful query"),
    (stateful(by="n"), "the stateful query's results are by 'n', which is none of their columns of text"),
    (stateful(by="nobody"), "the stateful query's results are by 'nobody'"),
    (stateful(schema=results(("epoch", pa.int64()))), "a result of the stateful query cannot be called 'epoch'"),
    (stateful(schema=results(("a b", pa.int64()))), "a result of the stateful query cannot be called 'a b'"),
    (stateful(schema=results(("N", pa.int64()))), "result 'n' of the stateful query is there twice"),
    (stateful(schema=results(("l", pa.list_(pa.int64())))), "result 'l' of the stateful query is of type list"),
    (stateful(to=ToTable("t", key=("n", "user"))), "sink 't' replaces rows by 'n': the key has to begin with 'user'"),
    (stateful(to=ToKafka("k", key="nobody")), "sink 'k' asks for 'nobody', which is not there"),
    (stateful(to=ToKafka("accepted")), "two sinks or steps are called 'accepted'"),
    (stateful(to=ToKafka("deltas")), "a sink or step cannot be called 'deltas'"),
]


@pytest.mark.parametrize(("change", "says"), REFUSED)
def test_a_mistake_is_refused_by_a_sentence_that_names_it(change: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=f"^{says}"):
        replace(PIPELINE, **change)


def test_what_it_publishes_is_a_sink_and_what_its_state_depends_on_is_bound() -> None:
    """Without the query, with one, and with another: each is another state."""
    assert PIPELINE.kafka_sinks == ("accepted", DEAD_LETTER, "per_user")
    assert PIPELINE.schema_of("per_user") == RESULTS
    assert PIPELINE.timed
    assert replace(PIPELINE, ids="coordinates").timed
    table_ = replace(PIPELINE, stateful=replace(STATEFUL, to=ToTable("t", key=("user",))))
    assert table_.tables["t"].schema == RESULTS
    others = [
        replace(PIPELINE, stateful=None),
        replace(PIPELINE, **stateful(schema=results(("m", pa.int64())))),
        replace(PIPELINE, **stateful(to=ToKafka("renamed"))),
    ]
    assert all(other.bound["windows"] != PIPELINE.bound["windows"] for other in others)
    assert json.loads(json.dumps(PIPELINE.bound)) == PIPELINE.bound
    assert Job(PIPELINE, pipeline_settings()).digest != Job(others[0], pipeline_settings()).digest


@example(5, 150, 100, 50)
@given(st.integers(1, 2000), st.none() | st.integers(0, 2000), st.integers(1, 300), st.integers(0, 300))
def test_late_is_what_it_is_everywhere_and_spark_drops_nothing_that_is_not(
    time_ms: int, watermark_ms: int | None, length_ms: int, lateness_ms: int
) -> None:
    """The rule is that of `Windows`; Spark drops what is not after its watermark."""
    windows = Windows(length_ms, lateness_ms)
    rows = pa.table(
        {
            "event_time_ms": pa.array([time_ms, time_ms, None], pa.int64()),
            "reason": pa.array([None, "ahead", "bad_time"], pa.string()),
        }
    )
    closed = windows.closed(windows.start(time_ms), watermark_ms)
    judged = judge_lateness(rows, windows, watermark_ms)["reason"].to_pylist()
    assert judged == ["late" if closed else None, "ahead", "bad_time"]
    made = pipeline_settings(window_ms=length_ms, lateness_ms=lateness_ms)
    assert closed or time_ms > spark_watermark_ms(made, watermark_ms)


def test_sparks_watermark_is_behind_by_a_window_and_the_lateness() -> None:
    made = pipeline_settings(window_ms=60_000, lateness_ms=120_000)
    assert spark_delay_ms(made) == 180_000
    assert [spark_watermark_ms(made, at) for at in (None, 1000, 180_001)] == [0, 0, 1]


def errand(place: Place, number: int = 0, silent: dict[int, Delta] | None = None) -> Errand:
    return Errand(place.task(PIPELINE, number).declaration, 1, "owner", {}, silent)


def first(place: Place, rows: pa.Table, silent: dict[int, Delta] | None = None) -> tuple[pa.Table, Any]:
    step = place.step(place.task(PIPELINE))
    accepted, note = decide(step, errand(place, silent=silent), rows.to_batches())
    return accepted, None if note is None else json.loads(json.loads(note)["note"])


@dataclass
class Task:
    """A task of Spark's that runs the first step of a batch, for shard 0."""

    errand: Errand

    def getLocalProperty(self, name: str) -> str:  # noqa: N802 - Spark's name
        return {PROPERTY: self.errand.encode(), BATCH_ID: str(self.errand.declaration.batch_id)}[name]

    def partitionId(self) -> int:  # noqa: N802 - Spark's name
        return 0


def ran(monkeypatch: pytest.MonkeyPatch, batches: list[pa.RecordBatch], silent: bool = False, **pinned: Any) -> Notes:
    """Run the first step as Spark does, on what came to the shard; return what it told."""
    place, told = Place(), Notes()
    task = place.task(PIPELINE, **pinned)
    made = Errand(task.declaration, 1, "owner", {}, {} if silent else None)
    monkeypatch.setattr(TaskContext, "get", lambda: Task(made))
    monkeypatch.setattr(ShardStep, "of_task", place.step)
    list(FirstStep(PIPELINE, task.settings, told.update)(batches))
    return told


NOTHING = {"events": {"0": (4, 4), "1": (8, 8)}}


def test_the_first_batch_on_an_idle_topic_has_no_tasks_before_it_and_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """It covers no record, so nobody closes a shard's input (R13); Spark's repeat of it for its state is the same."""
    (told,) = ran(monkeypatch, [], ranges=NOTHING, abandoned=False).values()
    assert json.loads(json.loads(told)["note"])["read"] == 0
    assert ran(monkeypatch, [], silent=True, ranges=NOTHING, abandoned=False) == {}


@pytest.mark.parametrize("silent", [False, True])
def test_rows_without_proof_that_they_are_all_are_refused(monkeypatch: pytest.MonkeyPatch, silent: bool) -> None:
    """Also where Spark repeats a batch for its state alone: that would lack rows for good (R13)."""
    unclosed = table([{}], PIPELINE)
    unclosed = unclosed.append_column(CLOSING, pa.nulls(unclosed.num_rows, pa.string()))
    inputs: list[list[pa.RecordBatch]] = [[], unclosed.to_batches()]
    for batches in inputs:
        with pytest.raises(InputError, match="no closing row came"):
            ran(monkeypatch, batches, silent)
    with pytest.raises(InputError, match="no closing row came, and 1 rows"):
        ran(monkeypatch, unclosed.to_batches(), silent, ranges=NOTHING, abandoned=False)


@settings(max_examples=examples(60))
@given(ROWS, st.sampled_from([1, 60]), st.randoms(use_true_random=False))
def test_a_recorded_epoch_gives_the_same_rows_again_and_publishes_nothing(
    rows: list[dict[str, Any]], times: int, shuffled: random.Random
) -> None:
    """From its delta alone, be it inline or an object, however the rows arrive."""
    numbered = [
        {**row, "id": f"{row['id']}{copy}", "offset": copy * len(rows) + number}
        for copy in range(times)
        for number, row in enumerate(rows)
    ]
    place = Place()
    accepted, note = first(place, table(numbered, PIPELINE))
    assert (note["sinks"], note["files"], place.published) == ({}, {}, {}), "shown before its results are there"
    assert note["accepted"] == accepted.num_rows
    delta = Delta(**note["deltas"]["ids"])
    assert (delta.inline is None) == (delta.rows > 20 or delta.rows == 0), "both kinds of delta are to be met"
    shuffled.shuffle(numbered)
    repeated, told = first(place, table(numbered, PIPELINE), {0: delta})
    assert repeated.equals(accepted)
    assert (place.published, told) == ({}, None)


def test_records_of_a_recorded_epoch_that_are_gone_are_an_error() -> None:
    """Its state would lack them, and later results be wrong."""
    place = Place()
    _, note = first(place, table([{"id": "a"}, {"id": "b"}], PIPELINE))
    step = place.step(place.task(PIPELINE))
    with pytest.raises(ChainError, match="epoch 0 accepted 2 rows in shard 0, and 1 are found again"):
        again(step, table([{"id": "a"}], PIPELINE), Delta(**note["deltas"]["ids"]))


def test_rows_without_ids_are_all_accepted_again() -> None:
    plain = replace(PIPELINE, ids="coordinates")
    place = Place()
    step = place.step(place.task(plain))
    rows = table([{}, {"reason": "late"}, {}], plain)
    found, note = decide(step, Errand(step.task.declaration, 1, "owner", {}, {}), rows.to_batches())
    assert (found["offset"].to_pylist(), note) == ([0, 2], None)


def test_an_errand_is_read_by_tasks_of_its_batch_alone() -> None:
    """A task without one, or of another batch, runs outside of its epoch and must not publish."""
    mine = errand(Place(), 3)
    assert Errand.of(mine.encode(), "3") == mine
    for text, batch in ((None, "3"), (mine.encode(), "4"), (mine.encode(), None)):
        with pytest.raises(StepError, match=r"rows of batch .* are asked for with"):
            Errand.of(text, batch)


def test_a_silent_errand_names_what_the_epoch_decided() -> None:
    record = record_of(declaration(4))
    silent = Errand.silent(record, 2, "owner")
    assert silent.declaration == declaration(4)
    assert silent.decided == {0: record.deltas["ids"]["0"]}


def test_notes_are_those_of_the_epoch_once_a_shard() -> None:
    """Whoever runs again tells the same again; a task of another epoch tells nothing about this one."""
    told = {"shard": 0, "note": json.dumps({"accepted": 1})}
    merged = _ByShard().addInPlace({(3, 1): json.dumps(told)}, {(3, 0): json.dumps(told), (2, 0): "{}"})
    merged = _ByShard().addInPlace(merged, {(3, 0): json.dumps(told)})
    assert notes_of(merged, 3) == ([0, 1], [{"accepted": 1}, {"accepted": 1}])
    assert _ByShard().zero(merged) == {}


def test_state_that_spark_cannot_load_is_named() -> None:
    lost = RuntimeError("Job aborted\nCaused by: [CANNOT_LOAD_STATE_STORE.CANNOT_READ_CHECKPOINT] An error\nmore")
    found = state_error(lost)
    assert isinstance(found, CheckpointError)
    assert found.what == "Spark cannot load its state: [CANNOT_LOAD_STATE_STORE.CANNOT_READ_CHECKPOINT] An error"
    assert state_error(RuntimeError("Job aborted")) is None


CONF = {PARTITIONS: "2", "spark.other": "x"}


class Folder:
    """A checkpoint of so many batches, the last of which may be uncommitted, and the head that goes with it."""

    def __init__(self, offsets: int, commits: int) -> None:
        self.store = ListedStore()
        self.checkpoint = Checkpoint(self.store, LAYOUT, "000001-abcd")  # type: ignore[arg-type]
        self.folder = LAYOUT.checkpoint("000001-abcd")
        for batch in range(offsets):
            self.offsets(batch, batch)
        for batch in range(commits):
            self.put(f"commits/{batch}", 'v2\n{"nextBatchWatermarkMs":0}')
        self.put("state/0/0/1.changelog", "")

    def put(self, name: str, text: str) -> None:
        self.store.answer(Put(f"{self.folder}/{name}", text.encode(), None))

    def delete(self, *names: str) -> None:
        for name in names:
            self.store.answer(Delete(f"{self.folder}/{name}"))

    def offsets(self, batch: int, of: int) -> None:
        ends = {t: {p: span[1] for p, span in parts.items()} for t, parts in declaration(of).ranges.items()}
        pinned = {"batchWatermarkMs": 5, "conf": CONF}
        self.put(f"offsets/{batch}", f"v1\n{json.dumps(pinned)}\n{json.dumps(ends)}")


def head(recorded: int, *, declared: bool) -> Head:
    """Head with epochs up to `recorded`, and maybe the next one declared."""
    tail = tuple(record_of(declaration(number)) for number in range(recorded + 1))
    return Head(
        pipeline="counts",
        generation=1,
        owner="o",
        settings={},
        last_recorded=recorded,
        tail=tail,
        declared=declaration(recorded + 1) if declared else None,
    )


FITS = [
    ((1, 0), (-1, True)),  # the first epoch was declared
    ((1, 0), (0, False)),  # recorded, not committed
    ((3, 3), (2, False)),  # stopped in order
    ((3, 2), (2, False)),  # killed between record and commit
    ((3, 2), (1, True)),  # killed in an epoch
    ((4, 3), (2, False)),  # planned, not declared
]


@pytest.mark.parametrize(("batches", "chain"), FITS)
def test_a_checkpoint_that_fits_the_chain_is_gone_on_with(batches: tuple[int, int], chain: tuple[int, bool]) -> None:
    folder = Folder(*batches)
    folder.checkpoint.go_on(head(chain[0], declared=chain[1]))
    planned = folder.checkpoint.read_planned(batches[0] - 1)
    assert (planned.watermark_ms, planned.conf) == (5, CONF)


Change = Callable[[Folder], object]
UNFIT: list[tuple[tuple[int, int], tuple[int, bool], Change, str]] = [
    ((3, 3), (2, False), lambda it: it.delete("offsets/0", "offsets/1", "offsets/2"), "it is gone"),
    ((2, 2), (2, False), lambda _: None, "its batch 2 is not epoch 2 of the chain"),
    ((2, 2), (2, False), lambda it: it.offsets(2, 5), "its batch 2 is not epoch 2 of the chain"),
    ((5, 3), (2, False), lambda _: None, "it goes on to batch 4, the chain ends with batch 2"),
    ((4, 4), (2, False), lambda _: None, "batch 3 is committed in it, and not recorded"),
    ((3, 3), (1, True), lambda _: None, "batch 2 is committed in it, and not recorded"),
    ((4, 2), (2, False), lambda _: None, "commits/2 is missing"),
    ((3, 2), (2, False), lambda it: it.delete("commits/1"), "commits/1 is missing"),
    ((3, 3), (2, False), lambda it: it.delete("state/0/0/1.changelog"), "the folder state/ is gone"),
]


@pytest.mark.parametrize(("batches", "chain", "change", "says"), UNFIT)
def test_one_that_does_not_is_refused(
    batches: tuple[int, int], chain: tuple[int, bool], change: Change, says: str
) -> None:
    """Going on would begin with another state, or leave a batch out of it."""
    folder = Folder(*batches)
    change(folder)
    with pytest.raises(CheckpointError, match=f"in Spark's checkpoint, and {says}") as refused:
        folder.checkpoint.go_on(head(chain[0], declared=chain[1]))
    assert "Put the objects of this folder back" in refused.value.todo


def test_nobody_is_told_to_delete_a_checkpoint_that_holds_state() -> None:
    folder = Folder(2, 1)
    folder.delete("offsets/1")
    folder.put("offsets/1", "v1")
    for ask in (lambda: folder.checkpoint.read_planned(1), lambda: folder.checkpoint.offsets(1)):
        with pytest.raises(CheckpointError) as refused:
            ask()
        assert "Put the objects of this folder back" in refused.value.todo
    folder.delete("state/0/0/1.changelog")
    with pytest.raises(CheckpointError, match="Delete the folder"):
        folder.checkpoint.offsets(1)
