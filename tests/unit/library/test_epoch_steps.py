"""The two steps of an epoch on tables and sinks in memory: a function of the shard's rows, however they arrive."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effectively_once.epoch import between, epoch
from effectively_once.errors import ChainError, StaleDriverError
from effectively_once.ledger import chain
from effectively_once.ledger.delta import Delta
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import run
from effectively_once.pipeline.columns import DEAD_LETTER
from effectively_once.state.deltas import Named
from tests.depth import examples
from tests.unit.library.one_epoch import (
    PIPELINE,
    ROWS,
    TOTALS,
    Place,
    table,
)


@settings(max_examples=examples(60))
@given(ROWS, st.integers(1, 5), st.randoms(use_true_random=False))
def test_what_a_shard_publishes_does_not_depend_on_how_its_rows_arrive(
    rows: list[dict[str, Any]], batches: int, shuffled: random.Random
) -> None:
    """The lowest coordinate of an id wins, wherever it stands (R4)."""
    numbered = [{**row, "offset": number} for number, row in enumerate(rows)]
    first, told = (place := Place()).dedup(table(numbered))
    mixed = list(numbered)
    shuffled.shuffle(mixed)
    second, told_again = (other := Place()).dedup(table(mixed), batches=batches)
    assert place.published == other.published
    assert {**told, "ms": None} == {**told_again, "ms": None}
    partial = [row for row in first.to_pylist() if row["kind"] == "partial"]
    assert Counter(map(str, partial)) == Counter(str(r) for r in second.to_pylist() if r["kind"] == "partial")
    in_order = sorted(numbered, key=lambda row: (row["partition"], row["offset"]))
    winners: dict[str, dict[str, Any]] = {}
    for row in in_order:
        if row["reason"] is None:
            winners.setdefault(row["id"], row)
    accepted = place.published["orders", 0].to_pylist()
    assert [(row["id"], row["partition"], row["offset"]) for row in accepted] == [
        (row["id"], row["partition"], row["offset"]) for row in winners.values()
    ]
    assert told["read"] == told["accepted"] + told["late"] + told["malformed"] + told["duplicate"] == len(rows)
    assert (told["accepted"], told["late"]) == (len(winners), sum(row["reason"] == "late" for row in rows))
    letters = [json.loads(value) for _, value in place.published[DEAD_LETTER, 0]]
    assert told["letters"] == dict(Counter(letter["reason"] for letter in letters))


@settings(max_examples=examples(60))
@given(ROWS)
def test_partial_aggregates_come_to_those_of_all_accepted_rows(rows: list[dict[str, Any]]) -> None:
    """Of both kinds of windows, each with its own number of values."""
    place = Place()
    carried, _ = place.dedup(table(rows))
    accepted = place.published["orders", 0].to_pylist()
    place.aggregate(carried)
    assert place.published["per_user", 0].num_rows == 0, "nothing is final before a watermark"
    expected: dict[tuple[str, int], list[int]] = {}
    for row in accepted:
        expected.setdefault((row["user"], row["event_time_ms"] // 100 * 100), []).append(row["amount"])
    found = {
        (row["key"], row["window_start_ms"]): (row["v0"], row["v1"], row["v2"], row["v3"])
        for row in carried.to_pylist()
        if row["kind"] == "partial" and row["of"] == "per_user"
    }
    assert found == {at: (len(some), sum(some), min(some), max(some)) for at, some in expected.items()}
    per_id = [row for row in carried.to_pylist() if row["of"] == "per_id"]
    assert Counter((row["key"], row["v0"]) for row in per_id) == Counter((row["id"], 1) for row in accepted)
    assert all(row["v1"] is row["v2"] is row["v3"] is None for row in per_id)


def decided(found: pa.Table, kind: str, number: int) -> dict[str, dict[int, list[Named]]]:
    """Return what the next epochs are told of the deltas of an epoch that was recorded."""
    notes = [json.loads(row["note"]) for row in found.to_pylist() if row["kind"] == "shard"]
    (delta,) = (note["deltas"][kind] for note in notes if kind in note["deltas"])
    return {kind: {0: [Named(number, Delta(**delta))]}}


@pytest.mark.parametrize(
    ("previous_ms", "watermark_ms", "starts"),
    [
        (None, 99, []),
        (None, 100, [0]),
        (99, 100, [0]),
        (100, 199, []),
        (100, 200, [100]),
        (99, 250, [0, 100]),
        (200, 250, []),
    ],
)
def test_a_window_is_published_by_the_epoch_that_closes_it_with_what_was_counted_before(
    previous_ms: int | None, watermark_ms: int, starts: list[int]
) -> None:
    """What comes in that epoch is not in it: its state is that before the epoch (R7)."""
    place = Place()
    times = {"ann": (0, 99, 100), "bob": (99,)}
    rows = [{"id": f"{user}{time}", "user": user, "event_time_ms": time} for user in times for time in times[user]]
    carried, _ = place.dedup(table(rows))
    found = place.aggregate(carried)
    more, _ = place.dedup(table([{"id": "new", "event_time_ms": 100}]), number=1)
    pinned: dict[str, Any] = {"previous_watermark_ms": previous_ms, "watermark_ms": watermark_ms}
    place.aggregate(more, number=1, named=decided(found, "per_user", 0), **pinned)
    results = [tuple(row.values())[:3] for row in place.published["per_user", 0].to_pylist()]
    every = [("ann", 0, 2), ("bob", 0, 1), ("ann", 100, 1)]
    assert results == [row for row in every if row[1] in starts]


@pytest.mark.parametrize(("number", "watermark_ms", "accepted"), [(1, 99, 1), (2, 99, 1), (70, 99, 1), (70, 100, 2)])
def test_a_copy_is_a_duplicate_however_many_epochs_after_its_original_until_its_window_is_closed(
    number: int, watermark_ms: int, accepted: int
) -> None:
    """Here the copy has another time, so that it is not late (R5, R6)."""
    place = Place()
    first, _ = place.dedup(table([{"id": "old", "event_time_ms": 99}]))
    known = decided(first, "ids", 0)
    copies = table([{"id": "old", "event_time_ms": 500}, {"id": "new", "event_time_ms": 500}])
    _, told = place.dedup(copies, number=number, named=known, watermark_ms=watermark_ms)
    assert (told["accepted"], told["duplicate"]) == (accepted, 2 - accepted)


def test_a_shard_shows_its_sinks_in_the_order_of_declaration_and_dead_letters_last() -> None:
    """Tables may refer to those before them, and nothing is shown behind a sink that refuses."""
    place = Place()
    found, _ = place.dedup(table([{}, {"reason": "bad"}]))
    assert [name for name, _ in place.published] == ["accepted", "orders", DEAD_LETTER]
    place.published.clear()
    place.aggregate(found)
    assert [name for name, _ in place.published] == ["per_user", "per_id"]


def test_only_what_is_accepted_moves_the_watermark() -> None:
    """Neither a late or malformed record, nor a copy that claims another time (R6)."""
    rows = [
        {"id": "a", "event_time_ms": 7},
        {"id": "a", "event_time_ms": 900},
        {"event_time_ms": 800, "reason": "bad"},
        {"event_time_ms": 700, "reason": "late"},
    ]
    _, told = Place().dedup(table(rows))
    assert told["max_event_time_ms"] == 7


def test_totals_of_several_shards_come_to_one_row_a_window() -> None:
    def total(start: int, *values: int) -> dict[str, Any]:
        whole = {f"v{n}": value for n, value in enumerate(values)}
        return {"kind": "total", "of": "per_user", "key": "", "window_start_ms": start, **whole}

    values = {"v0": 99, "v1": 9, "v2": 9, "v3": 9}
    noise = {"kind": "partial", "of": "per_user", "key": "ann", "window_start_ms": 0, **values}
    told = {"kind": "shard", "shard": 0, "note": "{}"}
    other = {"kind": "total", "of": "per_id", "key": "", "window_start_ms": 0, "v0": 50}
    rows = [total(100, 1, 5, 5, 5), total(0, 2, 7, 3, 4), noise, told, other, total(0, 3, -9, -6, 8)]
    found, wide = epoch.totals_of(PIPELINE, TOTALS, pa.Table.from_pylist(rows, between.columns(PIPELINE)))
    assert wide == []
    assert found.to_pylist() == [
        {"window_start_ms": 0, "n": 5, "sum": -2, "least": -6, "most": 8},
        {"window_start_ms": 100, "n": 1, "sum": 5, "least": 5, "most": 5},
    ]
    assert found.schema.equals(TOTALS.totals_schema(PIPELINE.row_schema))
    none, _ = epoch.totals_of(PIPELINE, TOTALS, between.columns(PIPELINE).empty_table())
    assert (none.num_rows, none.schema.equals(TOTALS.totals_schema(PIPELINE.row_schema))) == (0, True)


MOST = 2**63 - 1
CLOSING: dict[str, Any] = {"previous_watermark_ms": None, "watermark_ms": 100}


def small(place: Place) -> dict[str, dict[int, list[Named]]]:
    """Run an epoch of small amounts; return what the chain names then."""
    carried, _ = place.dedup(table([{"amount": 5}]))
    return decided(place.aggregate(carried), "per_user", 0)


def unreadable(named: dict[str, dict[int, list[Named]]], **changed: Any) -> dict[str, dict[int, list[Named]]]:
    """Name deltas that are not there, so that whoever reads them fails."""
    gone = {"inline": None, "digest": "f" * 32, **changed}
    return {kind: {0: [Named(e.epoch, e.rows.model_copy(update=gone)) for e in by[0]]} for kind, by in named.items()}


def test_a_sum_beyond_64_bits_is_a_dead_letter_of_the_epoch_that_closes_its_window_and_no_result() -> None:
    """Nothing stops: neither the epoch of the records, nor that of the result, nor a repeat of one of them."""
    place = Place()
    rows = [
        {"user": "ann", "amount": MOST},
        {"user": "ann", "amount": MOST},
        {"user": "bob", "amount": MOST},
        {"user": "bob", "amount": 5},
        {"user": "bob", "amount": -10},
        {"user": "cem", "amount": 7},
    ]
    carried, told = place.dedup(table(rows))
    assert (told["accepted"], place.published[DEAD_LETTER, 0]) == (6, [])
    named = decided(place.aggregate(carried), "per_user", 0)
    place.dedup(table([]), number=1, named=named, previous_watermark_ms=None, watermark_ms=99)
    assert place.published[DEAD_LETTER, 0] == [], "it is open"
    for _ in range(2):
        more, told = place.dedup(table([{"reason": "bad"}]), number=1, named=named, **CLOSING)
        assert (told["accepted"], told["malformed"]) == (0, 1)
        assert told["letters"] == {"bad": 1, "sum_too_large": 1}
        record, result = (json.loads(value) for _, value in place.published[DEAD_LETTER, 0])
        assert (record["reason"], record["source"]) == ("bad", ["t", 0, 0])
        exact = {"user": "ann", "window_start_ms": 0, "n": "2", "sum": str(2 * MOST), "least": str(MOST)}
        assert json.loads(result.pop("value")) == {**exact, "most": str(MOST)}
        assert result == {
            "reason": "sum_too_large",
            "id": None,
            "encoding": "utf-8",
            "epoch": 1,
            "source": [f"{place.name}.per_user", 0, 0],
        }
        found = place.aggregate(more, number=1, named=named, **CLOSING)
        results = [tuple(row.values()) for row in place.published["per_user", 0].to_pylist()]
        assert results == [("bob", 0, 3, MOST - 5, -10, MOST), ("cem", 0, 1, 7, 7, 7)]
        totals, wide = epoch.totals_of(PIPELINE, TOTALS, found)
        total = {"window_start_ms": 0, "n": 6, "sum": 3 * MOST + 2, "least": -10, "most": MOST}
        assert totals.to_pylist() == [{**total, "sum": None}]
        assert wide == [total]
    place.dedup(table([]), number=2, previous_watermark_ms=100, watermark_ms=200, named=named)
    assert place.published[DEAD_LETTER, 0] == []


def test_a_total_beyond_64_bits_is_null_and_the_results_that_it_is_of_are_published() -> None:
    place = Place()
    carried, _ = place.dedup(table([{"user": user, "amount": MOST} for user in ("ann", "bob")]))
    named = decided(place.aggregate(carried), "per_user", 0)
    more, _ = place.dedup(table([]), number=1, named=named, **CLOSING)
    assert place.published[DEAD_LETTER, 0] == []
    totals, wide = epoch.totals_of(PIPELINE, TOTALS, place.aggregate(more, number=1, named=named, **CLOSING))
    assert place.published["per_user", 0]["sum"].to_pylist() == [MOST, MOST]
    assert (totals["sum"].to_pylist(), [row["sum"] for row in wide]) == ([None], [2 * MOST])


def test_the_first_step_reads_windows_only_where_they_can_hold_such_a_sum() -> None:
    """What they hold at most is in the chain; a delta of a version that did not tell it is read."""
    place = Place()
    named = small(place)
    assert named["per_user"][0][0].rows.largest == 5
    place.dedup(table([]), number=1, named=unreadable(named), **CLOSING)
    place.dedup(table([]), number=1, named=unreadable(named, largest=None))  # closes nothing
    for size in (None, MOST):
        with pytest.raises(ChainError, match="a delta that the chain names is missing"):
            place.dedup(table([]), number=1, named=unreadable(named, largest=size), **CLOSING)


def test_what_no_sum_is_in_tells_no_size() -> None:
    """Older versions refuse a field that they do not know, so it is left out where it is of no use."""
    place = Place()
    carried, told = place.dedup(table([{"amount": 5}]))
    assert "largest" not in told["deltas"]["ids"]
    notes = [json.loads(row["note"]) for row in place.aggregate(carried).to_pylist() if row["kind"] == "shard"]
    (deltas,) = (note["deltas"] for note in notes if "per_user" in note["deltas"])
    assert (deltas["per_user"]["largest"], "largest" in deltas["per_id"]) == (5, False)
    nothing = place.aggregate(between.columns(PIPELINE).empty_table(), number=1)
    (note,) = (json.loads(row["note"]) for row in nothing.to_pylist() if row["kind"] == "shard")
    assert note["deltas"]["per_user"] == Delta().model_dump()


def test_a_shard_without_rows_publishes_nothing_everywhere_and_reports() -> None:
    """Marks must move on in every shard."""
    place = Place()
    carried, told = place.dedup(table([]))
    assert {name: len(rows) for (name, _), rows in place.published.items()} == {
        "accepted": 0,
        "orders": 0,
        DEAD_LETTER: 0,
    }
    assert told["max_event_time_ms"] is None
    assert place.published["orders", 0].schema.equals(PIPELINE.schema_of("orders"))
    place.aggregate(carried)
    assert place.published["per_user", 0].schema.equals(PIPELINE.schema_of("per_user"))


def test_rows_of_another_shard_are_refused() -> None:
    for shards in ([1], [0, 1]):
        with pytest.raises(ChainError, match=r"^rows of shards \[.*1\] came to shard 0 \(epoch 0\)"):
            Place().dedup(table([{"shard": shard} for shard in shards]))


def test_notes_of_the_first_step_go_through_the_second_unchanged() -> None:
    place = Place()
    carried, told = place.dedup(table([{}]))
    found = place.aggregate(carried)
    notes = [json.loads(row["note"]) for row in found.to_pylist() if row["kind"] == "shard"]
    assert len(notes) == 2
    assert told in notes


def test_a_repeated_attempt_of_a_driver_that_was_replaced_stops_before_it_does_anything() -> None:
    place = Place()
    task = place.task(PIPELINE)
    run(chain.take_over(Layout(place.name), "somebody else", {}), place.store)
    place.step(task)  # a first attempt does not ask
    with pytest.raises(StaleDriverError, match=r"^driver owner was replaced by somebody else"):
        place.step(task, attempt=1)
