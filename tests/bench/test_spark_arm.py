"""Batches of plain Spark are announced once each, in order, and waiting for data is none."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from effectively_once.progress import VARIABLE
from tests.bench import rates
from tests.bench.spark_arm import watch


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
