"""Rows per second are counted from the end of the warm-up to the end of all, whatever was measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench import rates
from tests.bench.errors import BenchError
from tests.bench.rates import Seen

SEEN = [Seen(1_000, 100), Seen(3_000, 250), Seen(4_000, 600), Seen(8_000, 1_000), Seen(20_000, 1_000)]


def test_warm_up_is_left_out_and_the_first_moment_with_all_rows_is_the_end() -> None:
    measured = rates.rate(SEEN, warm_up=200, total=1_000)

    assert measured.rows_per_s == (1_000 - 250) / 5
    assert measured.measured_s == 5.0


def test_a_run_that_did_not_see_all_rows_has_no_rate() -> None:
    with pytest.raises(BenchError, match="1,000 of 1,001 rows"):
        rates.rate(SEEN, warm_up=0, total=1_001)


def test_a_run_that_ends_with_its_warm_up_has_no_rate() -> None:
    with pytest.raises(BenchError, match="warm-up"):
        rates.rate([Seen(1_000, 1_000)], warm_up=250, total=1_000)


def test_published_epochs_add_up_and_a_line_that_is_being_written_waits(tmp_path: Path) -> None:
    lines = [
        {"t": 5, "event": "epoch", "state": "declared", "epoch": 0},
        {"t": 9, "event": "epoch", "state": "published", "epoch": 0, "in": 30},
        {"t": 11, "event": "step", "state": "published", "epoch": 1, "in": 99},
        {"t": 12, "event": "epoch", "state": "published", "epoch": 1, "in": 12},
    ]
    events = tmp_path / "events.jsonl"
    events.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"t": 13, "event": "epo')

    assert rates.epochs(events) == [Seen(9, 30), Seen(12, 42)]


def test_batches_of_spark_end_when_spark_says_so_not_when_they_are_announced(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text('{"t": 500, "event": "batch", "batch": 0, "rows": 7, "ended_ms": 321.5}\n')

    assert rates.batches(events) == [Seen(321.5, 7)]


def test_before_the_driver_announces_anything_nothing_was_seen(tmp_path: Path) -> None:
    assert rates.epochs(tmp_path / "none.jsonl") == []


def test_rows_of_which_a_part_comes_through_are_told_as_all_of_them() -> None:
    assert rates.scale([Seen(1, 0), Seen(2, 19), Seen(3, 38)], 38, 40) == [Seen(1, 0), Seen(2, 20), Seen(3, 40)]


def test_of_one_that_is_looked_at_only_what_is_new_is_kept() -> None:
    looks = iter([Seen(1, 0), Seen(2, 5), Seen(3, 5), Seen(4, 9)])
    read = rates.follow(lambda: next(looks))

    assert [len(read()) for _ in range(4)] == [1, 2, 2, 3]
    assert measured_between(rates.rate([Seen(1, 0), Seen(2, 5), Seen(4, 9)], 5, 9)) == (4, 2, 4)


def measured_between(rate: rates.Rate) -> tuple[int, float, float]:
    return rate.rows, rate.began_ms, rate.ended_ms
