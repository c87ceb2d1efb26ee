"""What is kept only because somebody holds the time back is bounded: time goes on, and who is left behind is named."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from effectively_once import Count
from effectively_once.driver import clock
from effectively_once.epoch import between, epoch
from effectively_once.ledger.clock import Clock
from effectively_once.ledger.delta import Delta
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.state import catalog as catalog_
from effectively_once.state import windows as state
from effectively_once.state.accumulators import accumulators
from effectively_once.state.catalog import Catalog
from effectively_once.state.deltas import Named
from effectively_once.state.held import excess_ms
from effectively_once.state.lateness import Windows
from effectively_once.state.windows import WindowState
from tests.unit.library.one_epoch import PIPELINE, Place, table
from tests.unit.library.test_clock import declared, head, record

WINDOWS = Windows(100, 50)
COUNT = accumulators({"count": Count()}, pa.schema([]))
SPANS = {"0": (0, 1), "1": (0, 1)}


@pytest.mark.parametrize(
    ("rows", "bound", "until"),
    [
        ({}, 1, None),
        ({0: 5, 100: 5}, 10, None),
        ({0: 5, 100: 5}, 9, 150),
        ({0: 5, 100: 5}, 5, 150),
        ({100: 5, 0: 5}, 4, 250),
        ({0: 1, 300: 1, 200: 7}, 8, 150),
        ({0: 1, 300: 1, 200: 7}, 7, 350),
    ],
)
def test_time_goes_as_far_as_it_must_for_no_more_than_the_bound_to_be_held(
    rows: dict[int, int], bound: int, until: int | None
) -> None:
    assert excess_ms([(WINDOWS, rows)], bound) == until
    left = sum(count for start, count in rows.items() if not WINDOWS.closed(start, until))
    assert left <= bound


TIMES = st.lists(st.integers(-6, 20).map(lambda steps: 25 * steps), max_size=40)
MARKS = st.none() | st.integers(-2, 13).map(lambda steps: 50 * steps)


@given(TIMES, MARKS, MARKS, st.integers(1, 4))
@example([5, 105], 150, 250, 1)
@example([5, 205, 405, 505], 550, 650, 1)
def test_ids_are_held_whose_windows_the_front_would_close(
    times: list[int], watermark_ms: int | None, front_ms: int | None, buckets: int
) -> None:
    """In whichever bucket they are, of their own or shared."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalog_.catalog, "BUCKETS_MAX", buckets)
        known = Catalog(WINDOWS, bucket_ms=200)
        for first in range(0, len(times), 10):
            part = np.array(times[first : first + 10])
            known.fold(pa.table({"id": [str(first + n) for n in range(len(part))], "event_time_ms": part}))
            # Some are sorted, some only folded.
            if first % 20:
                known.settle()
        known.expire(watermark_ms)
    due = Counter(WINDOWS.start(time) for time in times)
    assert known.count_held(front_ms) == Counter(
        {start: ids for start, ids in due.items() if WINDOWS.newly_closed(start, watermark_ms, front_ms)}
    )


def test_rows_of_windows_are_held_that_the_front_would_close_and_the_watermark_does_not() -> None:
    kept = WindowState(WINDOWS, COUNT)
    for start, keys in ((0, "ab"), (100, "abc"), (200, "a"), (100, "a")):
        rows = [{"key": key, "window_start_ms": start, "count": 1} for key in keys]
        kept.fold(pa.Table.from_pylist(rows, state.schema(COUNT)))
    assert kept.count_held(150, 250) == {100: 4}
    assert kept.count_held(None, 350) == {0: 2, 100: 4, 200: 1}
    assert kept.count_held(350, 250) == kept.count_held(None, None) == {}


LAGS = Clock(shown={"t": {"0": 40, "1": 900}})


def read_note(step: str, bound: int, **pinned: Any) -> int | None:
    """What a step of epoch 1 tells, after an epoch with two ids and two users in each window from 0 to 500."""
    place = Place()
    rows = table([{"event_time_ms": 100 * (n // 2) + 5, "user": "ab"[n % 2]} for n in range(12)])

    def run(number: int, step: str, batches: list[pa.RecordBatch]) -> tuple[pa.Table, dict[str, Any]]:
        task = place.task(PIPELINE, number, named, **(pinned if number else {}))
        task = replace(task, settings=task.settings.model_copy(update={"held_rows_max": bound, "lateness_ms": 50}))
        does = {"dedup": epoch.deduplicate, "windows": epoch.merge_partials}[step]
        found = pa.Table.from_batches(does(place.step(task, step), batches), between.columns(PIPELINE))
        return found, next(json.loads(row["note"]) for row in reversed(found.to_pylist()) if row["kind"] == "shard")

    named: dict[str, dict[int, list[Named]]] = {}
    carried, first = run(0, "dedup", rows.to_batches())
    _, second = run(0, "windows", carried.to_batches())
    assert first["excess_ms"] is None, "nothing is held before a clock shows how far the others are"
    for kind, delta in {**first["deltas"], **second["deltas"]}.items():
        named[kind] = {0: [Named(0, Delta(**delta))]}
    excess: int | None = run(1, step, [])[1]["excess_ms"]
    return excess


@pytest.mark.parametrize(
    ("bound", "pinned", "until"),
    [
        (11, {"clock": LAGS}, 150),
        (12, {"clock": LAGS}, None),
        (5, {"clock": LAGS}, 450),
        (1, {"clock": LAGS}, 650),
        (1, {"clock": None}, None),
        (11, {"clock": LAGS, "watermark_ms": 150}, None),
        (5, {"clock": LAGS, "watermark_ms": 150}, 450),
        (2, {"clock": Clock(shown={"t": {"0": 40, "1": 350}})}, 250),
        (1, {"clock": Clock(shown={"t": {"0": 40, "1": 900}}, idle={"t": ["1"]})}, None),
    ],
)
def test_the_first_step_tells_up_to_where_its_shard_holds_too_many_ids(
    bound: int, pinned: dict[str, Any], until: int | None
) -> None:
    assert read_note("dedup", bound, **pinned) == until


@pytest.mark.parametrize(
    ("bound", "pinned", "until"),
    [
        # Two users and two ids a window: what all windows of the pipeline hold counts together.
        (23, {"clock": LAGS}, 150),
        (24, {"clock": LAGS}, None),
        (1, {"clock": None}, None),
        (19, {"clock": LAGS, "watermark_ms": 150}, 250),
        (20, {"clock": LAGS, "watermark_ms": 150}, None),
    ],
)
def test_the_second_step_tells_up_to_where_its_shard_holds_too_much_of_windows(
    bound: int, pinned: dict[str, Any], until: int | None
) -> None:
    assert read_note("windows", bound, **pinned) == until


class Chain:
    """A chain that grows by an epoch at a time; partition 0 lags."""

    def __init__(self) -> None:
        self.head = head()

    def epoch(self, shown: dict[str, int], excess: int | None = None, **pinned: Any) -> tuple[int | None, list[str]]:
        """Declare and record one; return its watermark, and who is left behind."""
        made = clock.force(self.head, clock.next_clock(self.head, **{"idle": {}, **pinned}), {"t": SPANS})
        watermark = clock.watermark_ms(self.head, made, {"t": SPANS})
        done = record(declared(self.head.last_recorded + 1, watermark, made, SPANS), {"t": shown} if shown else {})
        self.head = head(*self.head.tail, done.model_copy(update={"excess_ms": excess}))
        return watermark, clock.find_left_behind(made, {"t": SPANS})


def test_where_too_much_is_held_the_next_epoch_leaves_behind_who_holds_it() -> None:
    chain = Chain()
    chain.epoch({"0": 40, "1": 900})
    assert chain.epoch({"1": 950}, excess=300) == (40, [])
    assert chain.epoch({"0": 50, "1": 960}) == (300, ["t/0"]), "no further than it must"
    assert chain.epoch({"0": 310, "1": 970}) == (300, ["t/0"]), "it is behind as long as it is"
    assert chain.epoch({}) == (310, [])


def test_who_is_ahead_of_where_time_has_to_go_is_waited_for() -> None:
    chain = Chain()
    chain.epoch({"0": 40, "1": 900})
    chain.epoch({"0": 300}, excess=300)
    assert chain.epoch({}) == (300, [])
    assert chain.head.tail[-1].clock == Clock(shown={"t": {"0": 300, "1": 900}}), "and nothing is pinned of it"


def test_one_that_has_shown_nothing_and_a_source_are_left_behind_too() -> None:
    chain = Chain()
    chain.epoch({"1": 900}, excess=300)
    assert chain.epoch({}, sources={"gate": None, "far": 200, "near": 400}) == (300, ["t/0", "gate", "far"])
    assert chain.epoch({}, sources={"gate": None}, released=("gate",)) == (300, ["t/0"])
    assert chain.epoch({}, idle={"t": ["0"]}, sources={"gate": None}) == (300, ["gate"])


def test_time_that_was_forced_does_not_fall_when_nothing_is_held_any_more() -> None:
    chain = Chain()
    chain.epoch({"0": 40, "1": 900}, excess=300)
    assert [chain.epoch({}, excess=200), chain.epoch({}), chain.epoch({})] == [(300, ["t/0"])] * 3


def test_a_clock_that_is_forced_survives_being_written_and_any_other_is_written_as_before() -> None:
    chain = Chain()
    chain.epoch({"0": 40, "1": 900}, excess=0)
    chain.epoch({"0": -1}, excess=300)
    chain.epoch({})
    for done in chain.head.tail:
        assert EpochRecord.model_validate_json(done.model_dump_json(by_alias=True)) == done
    written = [json.loads(done.model_dump_json()) for done in chain.head.tail]
    assert [("excess_ms" in one, "forced_ms" in one["clock"]) for one in written] == [
        (True, False),
        (True, False),
        (False, True),
    ]


@pytest.mark.parametrize("bound", [100, 10**6])
def test_what_one_shard_keeps_under_a_held_watermark_is_bounded(bound: int) -> None:
    """One partition creeps for ever, so that it is neither idle nor silent; without the bound all ids would be kept."""
    rows, step_ms, epochs = 10, 20, 200
    chain, known, live = Chain(), Catalog(WINDOWS), []
    for number in range(epochs):
        front_ms = step_ms * number
        pinned = clock.force(chain.head, clock.next_clock(chain.head, {}), {"t": SPANS})
        watermark_ms = clock.watermark_ms(chain.head, pinned, {"t": SPANS})
        known.expire(watermark_ms)
        excess = excess_ms([(WINDOWS, known.count_held(pinned.front_ms))], bound)
        ids = [f"{number}-{n}" for n in range(rows)]
        known.fold(pa.table({"id": ids, "event_time_ms": np.full(rows, front_ms)}))
        done = record(declared(number, watermark_ms, pinned, SPANS), {"t": {"0": number // 50, "1": front_ms}})
        chain.head = head(*chain.head.tail, done.model_copy(update={"excess_ms": excess}))
        live.append(len(known))
    # What the windows need anyway, of those that the front leaves open, and what came before the bound took effect.
    needed = rows * (WINDOWS.length_ms * 2 + WINDOWS.lateness_ms) // step_ms
    beside = rows * (3 + WINDOWS.length_ms // step_ms)
    if bound == 100:
        assert max(live) <= bound + needed + beside
        assert min(live[epochs // 2 :]) >= bound, "who lags is waited for as far as there is room"
    else:
        assert max(live) == rows * epochs, "else this tells nothing"
