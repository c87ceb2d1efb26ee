"""What is told of a held watermark, from announcements and output; a measurement that tells nothing is refused."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any

import pytest

from tests.bench import held, held_table
from tests.bench.errors import BenchError
from tests.bench.held_epochs import (
    Published,
    closing_epochs,
    compare_latencies,
    latencies_s,
    require_held,
)
from tests.bench.held_events import HeldEvents, Sent
from tests.bench.held_options import Asked
from tests.bench.held_table import BY_FRONT, BY_SLOWEST, BY_SPLIT, name_of
from tests.bench.memory import ROLES
from tests.bench.s1_events import START_MS


def announced(*rows: int, late: int = 0) -> list[dict[str, Any]]:
    """Epochs that read so many records, one every 100 ms."""
    found: list[dict[str, Any]] = [{"event": "driver", "state": "started", "t": 1}]
    for epoch, read in enumerate(rows):
        found.append({"event": "epoch", "state": "declared", "epoch": epoch, "t": 100 * epoch})
        done = {"t": 100 * epoch + 50, "in": read, "late": late, "ms": {"total": 10 * epoch, "ids": 1}}
        found.append({"event": "epoch", "state": "published", "epoch": epoch, **done})
    return found


def results(*closed: tuple[int, int]) -> list[bytes]:
    return [
        json.dumps({"user": user, "window_start_ms": start, "count": 1, "epoch": epoch}).encode()
        for start, epoch in closed
        for user in "ab"
    ]


def test_epochs_are_measured_after_the_warm_up_and_late_records_in_all() -> None:
    found = Published.of(announced(5, 6, 7, 8, late=2))
    assert (found.took_ms, found.late) == ([20, 30], 8)
    assert found.rows == {0: 5, 1: 11, 2: 18, 3: 26}
    assert found.at_ms == {0: 50, 1: 150, 2: 250, 3: 350}


def test_an_epoch_that_is_repeated_was_published_when_it_was_first() -> None:
    twice = announced(5, 6, 7)
    again = {**twice[-1], "t": 999}
    assert Published.of([*twice, again]).at_ms[2] == 250


def test_without_an_epoch_after_the_warm_up_there_is_no_measurement() -> None:
    with pytest.raises(BenchError, match="2 epochs, 2 of them for the warm-up"):
        Published.of(announced(5, 6))


def test_a_window_is_closed_by_one_epoch() -> None:
    assert closing_epochs(results((0, 3), (60, 3), (120, 5))) == {0: 3, 60: 3, 120: 5}
    with pytest.raises(BenchError, match="window 0 was published by epochs 3 and 4"):
        closing_epochs(results((0, 3), (0, 4)))


@pytest.mark.parametrize(("epoch", "held_"), [(6, True), (5, True), (4, True), (3, False)])
def test_a_watermark_that_was_not_held_is_not_measured(epoch: int, held_: bool) -> None:
    """Half of 1,200 records; an epoch of 100 may have been planned before."""
    events, published = HeldEvents(1_200, hold_ms=600_000), Published.of(announced(*[100] * 12))
    with nullcontext() if held_ else pytest.raises(BenchError, match="400 records, and was to be held until 600"):
        require_held(events, published, {START_MS: epoch, START_MS + 60_000: 9}, 100)


def test_where_no_window_was_closed_nothing_is_measured() -> None:
    with pytest.raises(BenchError, match="no window was closed"):
        require_held(HeldEvents(1_200), Published.of(announced(1, 2, 3)), {}, 100)


def test_a_latency_is_from_when_the_others_had_sent_a_window_until_it_is_visible() -> None:
    events = HeldEvents(1_000, span_ms=10_000)
    sent = [Sent(1_000_000.0 + 10 * rows, rows) for rows in range(0, 1_000, 50)]
    visible_ms = {START_MS: 1_006_500.0, START_MS + 5_000: 1_012_000.0}
    assert latencies_s(events, sent, visible_ms, 5_000) == {START_MS: 1.5}, "the end of the last was not sent"


def test_rules_are_compared_by_the_windows_that_both_have_closed() -> None:
    found = compare_latencies({"a": {2: 1.0, 1: 2.0, 3: 9.0}, "b": {1: 4.0, 2: 5.0}})
    assert found == {"a": [2.0, 1.0], "b": [4.0, 5.0]}
    with pytest.raises(BenchError, match="no window was closed by all rules"):
        compare_latencies({"a": {1: 1.0}, "b": {2: 1.0}})


@pytest.mark.parametrize("holds", [[5, 10], [0, 10, 5], [0, 0, 5]])
def test_holds_begin_with_none_and_rise(holds: list[int]) -> None:
    with pytest.raises(BenchError, match="name 0 first"):
        held.measure(Asked(holds=holds))


def test_the_tables_have_ratios_to_a_watermark_that_is_not_held_and_to_the_rule_of_before() -> None:
    arms = {name_of(0): 1, name_of(5): 2, name_of(5, 100): 1}
    costs = {
        arm: [
            {"mib": dict.fromkeys(ROLES, 100.0 * times + turn), "epoch_ms": [10, 20 * times, 90 * times], "late": 0}
            for turn in range(3)
        ]
        for arm, times in arms.items()
    }
    waits = {
        rule: [{"latency_s": {"1": wait, "2": wait + 2, **more}, "late": late}] * 3
        for rule, wait, more, late in (
            (BY_SLOWEST, 30.0, {}, 0),
            (BY_FRONT, 9.0, {"3": 1.0}, 1_234),
            (BY_SPLIT, 15.0, {}, 0),
        )
    }
    text = held_table.write(costs, waits, Asked())
    lines = text.splitlines()
    assert "| held for 5 min | 201 (200 to 202)" in text
    assert "Python workers: held for 5 min / not held: 1.99 (reported, no target)" in lines
    assert "longest epoch: held for 5 min / not held: 2.00 (reported, no target)" in lines
    assert "epoch: held for 5 min, held_rows_max 100 / not held: 1.00 (reported, no target)" in lines
    assert f"| {BY_FRONT} | 10.0 (10.0 to 10.0) | 11.0 (11.0 to 11.0) | 1,234 |" in lines
    assert f"median: {BY_SLOWEST} / {BY_FRONT}: 3.10 (reported, no target)" in lines
    assert f"longest: {BY_SLOWEST} / {BY_SPLIT}: 1.88 (reported, no target)" in lines
