"""Rows per second, from the end of the warm-up to the end of all, whatever announces them; and visible windows."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from effectively_once.progress import VARIABLE
from tests.bench import rates
from tests.bench.errors import BenchError
from tests.bench.rates import Seen
from tests.bench.spark_arm import watch
from tests.bench.visible import Visible

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


def result(user: str, start: int, count: int) -> bytes:
    return json.dumps({"user": user, "window_start_ms": start, "count": count}).encode()


def test_a_window_is_visible_when_its_last_result_is() -> None:
    visible = Visible()
    for line, t_ms in ((result("a", 0, 2), 10.0), (result("b", 60, 1), 20.0), (result("b", 0, 3), 30.0)):
        visible.see(line, t_ms)
    assert visible.at_ms == {0: 30.0, 60: 20.0}
    assert visible.counted() == {0: 5, 60: 1}


def _progress(batch: int, rows: int, *, waited: bool = False) -> Any:
    took = {"triggerExecution": 250, **({} if waited else {"addBatch": 100})}
    return SimpleNamespace(
        batchId=batch, numInputRows=rows, timestamp="1970-01-01T00:00:02.000Z", durationMs=took, stateOperators=[]
    )


class _Query:
    """A query that has come further each time it is asked."""

    def __init__(self, *steps: list[Any]) -> None:
        self._steps = [[], *steps]

    def awaitTermination(self, _: float) -> bool:  # noqa: N802 - Spark's name
        if len(self._steps) == 1:
            raise AssertionError("asked again after the last batch")
        del self._steps[0]
        return False

    @property
    def lastProgress(self) -> Any:  # noqa: N802 - Spark's name
        return self._steps[0][-1] if self._steps[0] else None

    @property
    def recentProgress(self) -> list[Any]:  # noqa: N802 - Spark's name
        return self._steps[0]


def test_batches_are_announced_with_the_end_that_spark_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "events.jsonl"))
    first, second, third = _progress(0, 5), _progress(1, 6), _progress(2, 7)
    idle = _progress(1, 0, waited=True)

    watch(_Query([], [first, idle], [first, idle, second, third]), batches=3)

    assert rates.batches(tmp_path / "events.jsonl") == [
        rates.Seen(2250, 5),
        rates.Seen(2250, 11),
        rates.Seen(2250, 18),
    ]


def test_a_query_beside_it_that_has_failed_ends_the_watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "events.jsonl"))

    watch(_Query([_progress(0, 5)]), beside=[SimpleNamespace(isActive=True), SimpleNamespace(isActive=False)])

    assert rates.batches(tmp_path / "events.jsonl") == [rates.Seen(2250, 5)]
