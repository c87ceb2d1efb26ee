"""The reference of a declared pipeline: ids, lateness, windows and epochs, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.harness.checkers.declared import Aggregated, Declaration, Given, Replayed, Sink, identity, replay
from tests.harness.checkers.declared_run import broken_records
from tests.harness.evidence import EpochRecord, Pin, Pinned
from tests.unit.harness.epochs import record_of

MINUTE = 60_000
DECLARED = Declaration(
    pipeline="clicks",
    attached=True,
    timed=True,
    window_ms=MINUTE,
    lateness_ms=MINUTE,
    sinks=(
        Sink("accepted", "kafka", "rows", ("id", "key", "amount")),
        Sink("dead_letter", "kafka", "dead_letter", ("reason", "id", "value")),
        Sink("per_minute", "kafka", "per_minute", ("key", "window_start_ms", "count", "amount", "least")),
        Sink("totals", "files", "per_minute", ("window_start_ms", "count", "amount"), totals=True),
    ),
    aggregates={
        "per_minute": Aggregated(
            "key", {"count": ("sum", None), "amount": ("sum", "amount"), "least": ("min", "amount")}
        ),
    },
)


def record(
    offset: int, id_: str | None, time_ms: int, *, key: str = "a", amount: int = 1, reason: str | None = None
) -> Given:
    row = {"id": id_, "event_time_ms": time_ms, "key": key, "amount": amount}
    return Given(("t", 0, offset), reason, row, f"record {offset}")


def epoch(number: int, start: int, end: int, watermark_ms: int | None) -> EpochRecord:
    return record_of(number, watermark_ms, ranges={"t": {0: (start, end)}})


RECORDS = [
    record(0, "1", 10_000, amount=5),
    record(1, "1", 10_000, amount=7),
    record(2, "2", 20_000, key="b"),
    record(3, None, 0, reason="malformed"),
    record(4, "3", 90_000),
    # Its window has ended by now, and is still open: it takes records for a minute more.
    record(5, "4", 30_000, amount=2),
    record(6, "5", 2 * MINUTE),
    record(7, "6", 30_000),
    record(8, "7", 2 * MINUTE + 1),
]
EPOCHS = [
    epoch(0, 0, 4, None),
    epoch(1, 4, 5, 20_000),
    epoch(2, 5, 7, 90_000),
    epoch(3, 7, 9, 2 * MINUTE),
]


@pytest.fixture
def outcome() -> Replayed:
    return replay(DECLARED, RECORDS, EPOCHS)


def rows(outcome: Replayed, sink: str) -> dict[Any, tuple[dict[str, Any], int]]:
    return {key: (dict(due.row), due.epoch) for key, due in outcome.due[sink].items()}


def test_of_copies_the_first_is_accepted(outcome: Replayed) -> None:
    assert rows(outcome, "accepted") == {
        ("t", 0, 0): ({"id": "1", "key": "a", "amount": 5}, 0),
        ("t", 0, 2): ({"id": "2", "key": "b", "amount": 1}, 0),
        ("t", 0, 4): ({"id": "3", "key": "a", "amount": 1}, 1),
        ("t", 0, 5): ({"id": "4", "key": "a", "amount": 2}, 2),
        ("t", 0, 6): ({"id": "5", "key": "a", "amount": 1}, 2),
        ("t", 0, 8): ({"id": "7", "key": "a", "amount": 1}, 3),
    }


def test_refused_and_late_records_are_dead_letters_with_their_reason(outcome: Replayed) -> None:
    assert rows(outcome, "dead_letter") == {
        ("t", 0, 3): ({"reason": "malformed", "id": None, "value": "record 3"}, 0),
        ("t", 0, 7): ({"reason": "late", "id": "6", "value": "record 7"}, 3),
    }


def test_a_window_is_emitted_once_by_the_epoch_whose_watermark_closes_it(outcome: Replayed) -> None:
    start = {"window_start_ms": 0}
    assert rows(outcome, "per_minute") == {
        ("a", 0): ({"key": "a", **start, "count": 2, "amount": 7, "least": 2}, 3),
        ("b", 0): ({"key": "b", **start, "count": 1, "amount": 1, "least": 1}, 3),
    }
    assert rows(outcome, "totals") == {("", 0): ({**start, "count": 3, "amount": 8}, 3)}
    assert outcome.open_windows == 2


def test_windows_of_another_length_hold_the_same_records_and_close_in_their_own_time() -> None:
    """What is late the pipeline's length decides: record 7 is in no window, though one of three minutes is open."""
    three = replace(DECLARED.aggregates["per_minute"], length_ms=3 * MINUTE)
    both = {**DECLARED.aggregates, "per_three": three}
    declared = replace(DECLARED, sinks=(*DECLARED.sinks, replace(DECLARED.sinks[2], name="per_three", of="per_three")))
    declared = replace(declared, aggregates=both)
    found = replay(declared, RECORDS, EPOCHS)
    assert rows(found, "per_minute") == rows(replay(DECLARED, RECORDS, EPOCHS), "per_minute")
    assert (rows(found, "per_three"), found.open_windows) == ({}, 3)
    records = [*RECORDS, record(9, "8", 4 * MINUTE), record(10, "9", 4 * MINUTE)]
    found = replay(declared, records, [*EPOCHS, epoch(4, 9, 10, 2 * MINUTE + 1), epoch(5, 10, 11, 4 * MINUTE)])
    start = {"window_start_ms": 0}
    assert rows(found, "per_three") == {
        ("a", 0): ({"key": "a", **start, "count": 5, "amount": 10, "least": 1}, 5),
        ("b", 0): ({"key": "b", **start, "count": 1, "amount": 1, "least": 1}, 5),
    }


def test_a_record_is_in_each_of_the_windows_that_overlap_at_its_time() -> None:
    """Also in those that begin before the first record, and before 1970."""
    sliding = replace(DECLARED.aggregates["per_minute"], length_ms=2 * MINUTE, slide_ms=MINUTE)
    declared = replace(DECLARED, aggregates={"per_minute": sliding})
    records = [record(0, "1", 10_000), record(1, "2", 90_000), record(2, "3", 9 * MINUTE), record(3, "4", 9 * MINUTE)]
    found = replay(declared, records, [epoch(0, 0, 3, None), epoch(1, 3, 4, 9 * MINUTE)])
    counts = {start: row["count"] for (_, start), (row, _) in rows(found, "per_minute").items()}
    assert counts == {-MINUTE: 1, 0: 2, MINUTE: 1}
    assert {start: row["count"] for (_, start), (row, _) in rows(found, "totals").items()} == counts
    assert found.open_windows == 2


def test_numbers_and_watermarks_are_those_of_what_was_accepted(outcome: Replayed) -> None:
    assert [(one.in_, one.accepted, one.duplicate, one.late, one.malformed) for one in outcome.numbers] == [
        (4, 2, 1, 0, 1),
        (1, 1, 0, 0, 0),
        (2, 2, 0, 0, 0),
        (2, 1, 0, 1, 0),
    ]
    assert [one.watermark_ms for one in outcome.numbers] == [None, 20_000, 90_000, 2 * MINUTE]
    assert [one.max_event_time_ms for one in outcome.numbers] == [20_000, 90_000, 2 * MINUTE, 2 * MINUTE + 1]


def test_what_no_epoch_read_and_what_two_read_is_named() -> None:
    found = replay(DECLARED, RECORDS, [EPOCHS[0], epoch(1, 3, 5, 20_000)])
    assert found.unread == [("t", 0, offset) for offset in range(5, 9)]
    assert found.reread == [("t", 0, 3)]


def test_without_ids_and_times_every_record_is_accepted() -> None:
    plain = replace(DECLARED, attached=False, timed=False, sinks=DECLARED.sinks[:1], aggregates={})
    found = replay(plain, RECORDS, EPOCHS)
    assert [one.source[2] for one in RECORDS if one.reason is None] == [key[2] for key in found.due["accepted"]]
    assert [one.watermark_ms for one in found.numbers] == [None, None, None, None]


def test_what_the_transform_leaves_out_is_counted_and_nothing_else_comes_of_it() -> None:
    """Its id is not known: the record of this id that comes later is accepted. Its time closes no window."""
    marked = [replace(record(0, "1", 5 * MINUTE), filtered="bot"), replace(record(2, None, 0), filtered="probe")]
    records = [marked[0], record(1, "1", 10_000), marked[1], replace(record(3, "2", 0, reason="bad"), filtered="bot")]
    declared = replace(DECLARED, filtered=("bot", "probe"))
    found = replay(declared, records, [epoch(0, 0, 2, None), epoch(1, 2, 4, 10_000)])
    assert [(one.in_, one.accepted, one.malformed, one.filtered) for one in found.numbers] == [
        (2, 1, 0, {"bot": 1}),
        (2, 0, 1, {"probe": 1}),
    ]
    assert [one.max_event_time_ms for one in found.numbers] == [10_000, None]
    assert [*found.due["accepted"]] == [("t", 0, 1)]
    assert [*found.due["dead_letter"]] == [("t", 0, 3)], "what its author refuses is refused, whatever its mark"
    assert not found.unread
    undeclared = replay(DECLARED, records[:2], [epoch(0, 0, 2, None)])
    assert (undeclared.numbers[0].accepted, undeclared.numbers[0].filtered) == (1, {}), "it needs a declaration"


@pytest.mark.parametrize(
    ("sink", "row", "known"),
    [
        (0, {"source": ["t", 0, 4]}, ("t", 0, 4)),
        (0, {"id": "3"}, None),
        (2, {"key": "a", "window_start_ms": 0}, ("a", 0)),
        (2, {"key": "a", "window_start_ms": "0"}, None),
        (3, {"window_start_ms": 0}, ("", 0)),
    ],
)
def test_a_row_is_known_by_its_source_or_by_key_and_window(sink: int, row: dict[str, Any], known: object) -> None:
    assert identity(DECLARED, DECLARED.sinks[sink], row) == known


def test_a_row_of_a_table_has_its_source_in_columns() -> None:
    table = Sink("rows", "table", "rows", ("id",))
    assert identity(DECLARED, table, {"topic": "t", "partition": 0, "offset": 4}) == ("t", 0, 4)


def test_what_an_epoch_leaves_that_is_finished_as_shown_the_repair_takes() -> None:
    shown = {"0": Pinned(rows=2)}
    epochs = [
        EPOCHS[0].model_copy(update={"shown": shown}),
        epoch(1, 4, 4, None).model_copy(update={"shown": shown, "repairs": 0}),
        epoch(2, 4, 5, 20_000),
    ]
    pins = [Pin(0, "0", ("t", 0, offset)) for offset in (1, 3)]
    found = replay(DECLARED, RECORDS[:5], epochs, pins)
    assert {place[2]: due.epoch for place, due in found.due["accepted"].items()} == {1: 0, 2: 1, 4: 2}
    assert {place[2]: due.epoch for place, due in found.due["dead_letter"].items()} == {3: 0}
    assert [(one.in_, one.duplicate, one.watermark_ms) for one in found.numbers] == [
        (2, 0, None),
        (2, 1, None),
        (1, 0, 20_000),
    ]
    assert not found.unread
    assert replay(DECLARED, RECORDS[:5], [epochs[0], epochs[2]], pins).unread == [("t", 0, 0), ("t", 0, 2)]


def row(offset: int, pos: int, id_: str | None = None, time_ms: int = 10_000, **more: Any) -> Given:
    """A row of a record that has several."""
    return replace(record(offset, f"{id_ or offset}#{pos}", time_ms), pos=pos, **more)


SEVERAL = replace(DECLARED, rows_max=3, filtered=("gift",))
ROWS = [
    row(0, 1),
    row(0, 0),
    row(0, 2, filtered="gift"),
    row(1, 0, "0"),
    row(1, 1, "0"),
    row(1, 2, "0"),
    row(2, 0, reason="missing_items"),
    row(3, 0, time_ms=30_000),
    row(3, 1, time_ms=2 * MINUTE),
]


def test_each_row_of_a_record_is_due_by_its_place_and_records_are_counted_by_their_first() -> None:
    found = replay(SEVERAL, ROWS, [epoch(0, 0, 3, None), epoch(1, 3, 4, 2 * MINUTE)])
    told = [(one.records, one.in_, one.accepted, one.duplicate, one.late, one.malformed) for one in found.numbers]
    # The copy's third row is no copy of what was left out: that has taken no id.
    assert (told, found.numbers[0].filtered) == ([(3, 7, 3, 2, 0, 1), (1, 2, 1, 0, 1, 0)], {"gift": 1})
    assert [*found.due["accepted"]] == [("t", 0, 0, 0), ("t", 0, 0, 1), ("t", 0, 1, 2), ("t", 0, 3, 1)]
    assert [*found.due["dead_letter"]] == [("t", 0, 2, 0), ("t", 0, 3, 0)]
    assert (found.unread, found.reread) == ([], [])
    shown = {"source": ["t", 0, 1], "pos": 2}
    assert identity(SEVERAL, SEVERAL.sinks[0], shown) == ("t", 0, 1, 2)
    assert identity(SEVERAL, SEVERAL.sinks[0], {"source": ["t", 0, 1]}) not in found.due["accepted"]
    again = replay(SEVERAL, ROWS, [epoch(0, 0, 3, None), epoch(1, 2, 3, None)])
    assert (again.unread, again.reread) == ([("t", 0, 3)], [("t", 0, 2)])


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([row(0, 0), row(0, 2)], "the rows of t/0@0 are [0, 2], of at most 3"),
        ([row(0, 1)], "the rows of t/0@0 are [1], of at most 3"),
        ([row(0, 0), row(0, 0)], "the rows of t/0@0 are [0, 0], of at most 3"),
        ([row(0, pos) for pos in range(4)], "the rows of t/0@0 are [0, 1, 2, 3], of at most 3"),
        ([record(0, None, 1)], "the rows of t/0@0 are [-1], of at most 3"),
        ([row(0, 0), row(0, 1, "b")], "the ids of the rows of t/0@0 are not made of one record's"),
        ([replace(row(0, 0), row={"id": "a#1"})], "the ids of the rows of t/0@0 are not made of one record's"),
    ],
)
def test_rows_that_are_of_no_record_are_named(rows: list[Given], says: str) -> None:
    assert broken_records(SEVERAL, rows) == [says]
    assert broken_records(SEVERAL, [*ROWS, row(9, 0, "a#1"), row(9, 1, "a#1")]) == []
    assert broken_records(DECLARED, RECORDS) == []
