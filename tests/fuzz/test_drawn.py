"""Declarations for the stack hold, are the same wherever their name is known, and reach every kind there is."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from effectively_once import Pipeline
from effectively_once.epoch.message_bytes import LETTER_BYTES
from effectively_once.epoch.rows import STATEFUL_TIMES_MS
from effectively_once.pipeline.sinks import MESSAGE_BYTES, ToTable
from tests.fuzz.closed import compute_due, count_by_window, differences, find_closed
from tests.fuzz.drawn import AGGREGATES, COUNTED, NUMBER, STATEFUL, drawn, name_of
from tests.fuzz.large import large
from tests.fuzz.reading import read
from tests.fuzz.records import CLOSER, closer, many
from tests.fuzz.rows import FIELDS, Row, row_of
from tests.fuzz.trial_run import TrialRun
from tests.fuzz.without_spark import plain_trial

SEEDS = range(40)


def untouched(frame: Any) -> Any:
    return frame


def one(seed: int, number: int) -> Pipeline:
    return drawn(name_of(seed, number), untouched, untouched)


def test_every_declaration_holds_and_is_the_same_again() -> None:
    for seed in SEEDS:
        for number in range(NUMBER):
            pipeline = one(seed, number)
            assert pipeline == one(seed, number)
            assert pipeline.ids == ("coordinates" if number % 2 else "attached")
            assert (pipeline.stateful is not None) == (number == STATEFUL)
            assert bool(pipeline.windows) == (number != STATEFUL)
            assert {"told", "archive"} & {sink.name for sink in pipeline.rows}


def test_a_seed_has_others_than_another_and_all_kinds_come() -> None:
    drawn_ = [one(seed, number) for seed in SEEDS for number in range(NUMBER)]
    aggregates = {name for each in drawn_ for window in each.windows for name in window.values}
    assert aggregates == {*AGGREGATES, "count"}
    sinks = Counter(name for each in drawn_ for name in each.sinks)
    assert {*sinks} >= {"told", "kept", "archive", "raw", "told_sums", "kept_sums", "archive_sums", "counted"}
    for name in ("told", "kept", "archive", "raw", "told_sums", "kept_sums", "archive_sums"):
        assert 0 < sinks[name] < len(drawn_), name
    keyed = {bool(sink.key) for each in drawn_ for sink in each.rows if isinstance(sink, ToTable)}
    assert keyed == {True, False}
    assert len({each.window_ms for each in drawn_}) == len({each.lateness_ms for each in drawn_}) == 3
    assert len({window.by for each in drawn_ for window in each.windows}) == 3


@pytest.mark.parametrize("name", ["pipeline", "drawn_1", "drawn_x_1", "drawn_1_-1", "told_1_1"])
def test_another_name_is_no_declaration(name: str) -> None:
    with pytest.raises(ValueError, match=r"drawn|unpack"):
        drawn(name, untouched, untouched)


def test_large_records_are_of_all_sizes_and_around_what_a_letter_may_have() -> None:
    records = [record for seed in range(3) for record in large(seed)]
    values = [record.value or b"" for record in records]
    assert min(map(len, values)) >= 900_000
    assert max(map(len, values)) <= 9_500_000 < MESSAGE_BYTES
    reasons = Counter(read(value, FIELDS)[0] for value in values[: len(values) // 3])
    assert reasons.keys() == {None, "malformed"}
    as_base64 = [4 * -(-len(value) // 3) for value in values if value.startswith(b"\xff\xfe")]
    assert any(LETTER_BYTES - 1_000 < size <= LETTER_BYTES for size in as_base64), "none is at the end of a letter"
    assert large(3) == large(3) != large(4)


def test_one_that_closes_windows_is_taken_by_every_declaration() -> None:
    for number in range(NUMBER):
        pipeline = one(1, number)
        last = closer(STATEFUL_TIMES_MS[1]) if pipeline.stateful else CLOSER
        assert row_of(pipeline, last.value, None)["reason"] is None
        beyond = closer((STATEFUL_TIMES_MS[1] if pipeline.stateful else 10**15 - 1) + 1)
        assert row_of(pipeline, beyond.value, None)["reason"] == "bad_time"


def rows_of(pipeline: Pipeline, seed: int, number: int) -> list[Row]:
    found = []
    for offset, record in enumerate(many(seed, number, far=False)):
        row = row_of(pipeline, record.value, None)
        if row.pop("reason") is None:
            found.append({**row, "topic": "t", "partition": 0, "offset": offset})
    return found


def test_results_are_those_of_windows_that_are_closed() -> None:
    pipeline = one(3, 0)
    rows = rows_of(pipeline, 5, 300)
    (each, *_) = pipeline.windows
    times = [row["event_time_ms"] for row in rows]
    assert compute_due(pipeline, each, rows, None) == ([], 0)
    assert not find_closed(pipeline, each, rows, min(times) + pipeline.lateness_ms)
    beyond_ms = max(times) + pipeline.lateness_ms + pipeline.window_ms
    due, impossible = compute_due(pipeline, each, rows, beyond_ms)
    groups = find_closed(pipeline, each, rows, beyond_ms)
    assert len(due) + impossible == len(groups) > 0
    assert sum(map(len, groups.values())) == len(rows)
    assert {*due[0]} == {*each.keys, "window_start_ms", *each.values}


def test_rows_are_counted_by_user_and_hour() -> None:
    base: Row = {"user": "ann", "event_time_ms": -1, "m": None}
    rows = [base, {**base, "m": 3}, {**base, "m": 2}, {**base, "event_time_ms": 0}, {**base, "user": None}]
    assert [*count_by_window(rows, 3_600_000).values()] == [
        {"user": "ann", "window_start_ms": -3_600_000, "count": 3, "most": 3},
        {"user": "ann", "window_start_ms": 0, "count": 1, "most": None},
    ]
    assert pa.schema(COUNTED).names == ["user", "window_start_ms", "count", "most"]


def test_what_two_sinks_do_not_both_have_is_named_and_short() -> None:
    rows: list[Row] = [{"a": 1, "b": "x" * 10**6}, {"a": 2, "b": None}]
    assert differences(rows, rows[::-1]) == []
    found = differences([*rows, rows[1]], [rows[1]])
    assert [what for what, _ in found] == ["too many", "too many"]
    assert len(str(found)) < 500
    assert differences([], rows[1:]) == [("missing", {"a": "2", "b": "None"})]


@pytest.mark.parametrize("seed", range(3))
def test_records_of_any_kind_through_the_declarations_that_the_trial_can_show(seed: int) -> None:
    """Those with a topic, a table, files and raw messages, as they are on the stack; Spark's own state is not here."""
    for number in range(STATEFUL):
        pipeline = one(seed, number)
        if {sink.name for sink in pipeline.rows} != {"told", "kept", "archive", "raw"}:
            continue
        with plain_trial(pipeline, 2) as trial:
            TrialRun(trial, pipeline, 2).all([many(seed, 150, far=False), many(seed + 1, 50, far=True)])
