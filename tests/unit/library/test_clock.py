"""Time by the partition that is furthest behind: which watermark a chain pins, and who is not waited for."""

from __future__ import annotations

import json

import pytest

from effectively_once.driver import clock
from effectively_once.ledger import interventions
from effectively_once.ledger.clock import Clock, Times
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.epoch_record import Counts, EpochRecord
from effectively_once.ledger.head import Head
from tests.unit.ledger.samples import due_of

Spans = dict[str, tuple[int, int]]


def declared(epoch: int, watermark_ms: int | None, pinned: Clock | None, spans: Spans) -> Declaration:
    return Declaration(
        epoch=epoch,
        lineage="l",
        batch_id=epoch,
        ranges={"t": spans},
        topic_ids={},
        watermark_ms=watermark_ms,
        previous_watermark_ms=None,
        shards=1,
        wheel_digest="",
        settings_digest="",
        clock=pinned,
    )


def record(declaration: Declaration, shown: Times) -> EpochRecord:
    return EpochRecord(
        **declaration.model_dump(),
        generation=1,
        counts=Counts(),
        max_event_time_ms=None,
        sinks={},
        deltas={},
        shown_ms=shown,
    )


def head(*records: EpochRecord) -> Head:
    last = records[-1].epoch if records else -1
    return Head(pipeline="p", generation=1, owner="o", settings={}, last_recorded=last, tail=records)


class Run:
    """A chain that grows by an epoch at a time."""

    def __init__(self) -> None:
        self.head = head()

    def epoch(
        self,
        shown: dict[str, int],
        idle: list[str] | None = None,
        sources: dict[str, int | None] | None = None,
        released: tuple[str, ...] = (),
    ) -> int | None:
        """Declare and record an epoch that shows these times; return the watermark that it pins."""
        spans = {"0": (0, 1), "1": (0, 1)}
        pinned = clock.next_clock(self.head, {"t": idle} if idle else {}, sources, released)
        watermark = clock.watermark_ms(self.head, pinned, {"t": spans})
        done = record(declared(self.head.last_recorded + 1, watermark, pinned, spans), {"t": shown} if shown else {})
        self.head = head(*self.head.tail, done)
        return watermark


def test_time_goes_by_the_partition_that_is_furthest_behind() -> None:
    run = Run()
    assert run.epoch({"0": 100, "1": 10}) is None
    assert run.epoch({"0": 900}) == 10
    assert run.epoch({"1": 50}) == 10
    assert run.epoch({}) == 50


def test_what_comes_late_does_not_take_its_partition_back() -> None:
    run = Run()
    assert [run.epoch({"0": 100, "1": 90}), run.epoch({"1": 500})] == [None, 90]
    assert run.epoch({"0": 400, "1": 60}) == 100
    assert run.epoch({}) == 400


def test_a_partition_that_has_shown_nothing_holds_time() -> None:
    run = Run()
    assert [run.epoch({"0": 100}), run.epoch({"0": 200}), run.epoch({"0": 300})] == [None, None, None]


def test_an_idle_one_is_not_waited_for_and_comes_back_without_taking_time_backwards() -> None:
    run = Run()
    run.epoch({"0": 100, "1": 10})
    assert run.epoch({"0": 200}, idle=["1"]) == 100
    assert run.epoch({"1": 20}) == 100
    assert run.epoch({"0": 300, "1": 250}) == 100
    assert run.epoch({}) == 250


def test_a_source_holds_time_until_it_has_passed_or_is_released() -> None:
    run = Run()
    run.epoch({"0": 100, "1": 90})
    assert run.epoch({"0": 500, "1": 400}, sources={"gate": None}) is None
    assert run.epoch({}, sources={"gate": 60}) == 60
    assert run.epoch({}, sources={"gate": 60}, released=("gate",)) == 400
    assert run.epoch({}, sources={"gate": 70}) == 400, "one that comes back does not take time backwards"
    assert run.epoch({"0": 900, "1": 900}, sources={"gate": 800}) == 400
    assert run.epoch({}, sources={"gate": 800}) == 800


def test_a_source_that_is_ahead_of_all_records_closes_nothing() -> None:
    run = Run()
    run.epoch({"0": 100, "1": 90})
    assert run.epoch({}, sources={"gate": 10_000}) == 90
    assert run.epoch({}, sources={"gate": 10_000}, idle=["0", "1"]) == 90


def test_time_stands_where_all_are_idle() -> None:
    run = Run()
    run.epoch({"0": 100, "1": 10})
    assert run.epoch({}) == 10
    assert run.epoch({}, idle=["0", "1"]) == 10


def test_a_chain_without_clocks_goes_on_with_one() -> None:
    before = record(declared(0, 70, None, {"0": (0, 1)}), {})
    pinned = clock.next_clock(head(before), {})
    assert clock.watermark_ms(head(before), pinned, {"t": {"0": (1, 2)}}) == 70


def test_an_abandoned_epoch_hands_its_clock_on() -> None:
    run = Run()
    run.epoch({"0": 100, "1": 90})
    pinned = clock.next_clock(run.head, {})
    given_up = interventions.nothing(declared(1, 90, pinned, {"0": (1, 2), "1": (1, 2)}))
    run.head = head(*run.head.tail, record(given_up, {}))
    assert run.epoch({}) == 90


def test_one_that_repairs_knows_what_the_epoch_before_has_shown() -> None:
    run = Run()
    run.epoch({"0": 100, "1": 90})
    shown = record(declared(1, 90, clock.next_clock(run.head, {}), {"0": (1, 2), "1": (1, 2)}), {"t": {"0": 400}})
    due = due_of(head(*run.head.tail, shown.model_copy(update={"shown": {"0": {}}})))
    assert due.clock == Clock(shown={"t": {"0": 400, "1": 90}})


def test_an_epoch_without_a_clock_is_written_as_before() -> None:
    written = json.loads(record(declared(0, 1, None, {"0": (0, 1)}), {}).model_dump_json())
    assert not {"clock", "shown_ms", "shown", "repairs"} & {*written}
    assert {*Clock().model_dump()} == {"shown", "idle"}


def test_a_clock_survives_being_written() -> None:
    pinned = Clock(shown={"t": {"0": 5}}, idle={"t": ["1"]}, sources={"a": 1, "b": None}, released=("b",))
    done = record(declared(0, 1, pinned, {"0": (0, 1)}), {"t": {"0": 7}})
    assert EpochRecord.model_validate_json(done.model_dump_json(by_alias=True)) == done


@pytest.fixture
def now() -> list[float]:
    return [0.0]


@pytest.fixture
def silence(now: list[float]) -> clock.Silence:
    return clock.Silence(5_000, lambda: now[0])


def test_who_is_silent_for_long_enough_is(now: list[float], silence: clock.Silence) -> None:
    assert silence.hear({"a": True, "b": True}) == []
    now[0] = 4.9
    assert silence.hear({"a": True, "b": False}) == []
    now[0] = 5.0
    assert silence.hear({"a": True, "b": False}) == ["b"]
    assert silence.hear({"a": True, "b": True}) == []


def test_a_driver_that_starts_calls_nobody_silent(now: list[float], silence: clock.Silence) -> None:
    now[0] = 1000.0
    assert silence.hear({"a": False}) == []


@pytest.mark.parametrize(("end", "idle"), [(7, {"t": ["1"]}), (8, {})])
def test_one_with_a_backlog_is_not_idle(end: int, idle: clock.Idle) -> None:
    ranges = {"t": {"0": (0, 3), "1": (7, 7)}}
    assert clock.without_backlog([("t", "1")], ranges, {"t": {"0": 3, "1": end}}) == idle


def test_one_whose_end_nobody_tells_is_not_idle() -> None:
    assert clock.without_backlog([("t", "1")], {"t": {"1": (7, 7)}}, {"t": {}}) == {}
