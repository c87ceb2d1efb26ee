"""Rows per second, counted the same way whatever was measured: from the end of a warm-up to the end of all."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from infra.embedded.process import Child, wait_for
from tests.bench.errors import BenchError

POLL_S = 0.2
"""Looking takes time of the same cores, and a peer's broker answers each look."""


@dataclass(frozen=True, slots=True)
class Seen:
    """How many rows were read, processed, published and committed until a moment (ms since 1970)."""

    t_ms: float
    rows: int


@dataclass(frozen=True, slots=True)
class Rate:
    """Rows per second, and over how many rows from when to when (ms since 1970) that was measured."""

    rows: int
    began_ms: float
    ended_ms: float

    @property
    def measured_s(self) -> float:
        """For how many seconds it was measured."""
        return (self.ended_ms - self.began_ms) / 1000

    @property
    def rows_per_s(self) -> float:
        """Rows per second."""
        return self.rows / self.measured_s

    @property
    def rounded(self) -> dict[str, float]:
        """As a sample is kept."""
        return {"rows_per_s": round(self.rows_per_s), "measured_s": round(self.measured_s, 1)}


def rate(seen: Sequence[Seen], warm_up: int, total: int) -> Rate:
    """Measure between the first moment with `warm_up` rows and the first one with all `total` rows.

    Raises:
        BenchError: not all rows were seen, or warm-up and end are one moment.

    """
    last = next((one for one in seen if one.rows >= total), None)
    if last is None:
        raise BenchError(f"{max((one.rows for one in seen), default=0):,} of {total:,} rows were seen: no rate")
    first = next(one for one in seen if one.rows >= warm_up)
    if last.t_ms <= first.t_ms:
        raise BenchError(
            f"all {total:,} rows came with those of the warm-up ({warm_up:,}): measure more records, or smaller batches"
        )
    return Rate(total - first.rows, first.t_ms, last.t_ms)


def read_announced(path: Path) -> list[dict[str, Any]]:
    """Events that a driver announced so far; a line that is being written is left for the next time."""
    lines = path.read_text().rpartition("\n")[0].splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def epochs(path: Path) -> list[Seen]:
    """Rows after each published epoch of a pipeline of ours."""
    found = [one for one in read_announced(path) if one["event"] == "epoch" and one["state"] == "published"]
    return _cumulate((float(one["t"]), int(one["in"])) for one in found)


def batches(path: Path) -> list[Seen]:
    """Rows after each batch of plain Spark, as `spark_arm.watched` announces them."""
    return _cumulate(
        (float(one["ended_ms"]), int(one["rows"])) for one in read_announced(path) if one["event"] == "batch"
    )


def scale(seen: Iterable[Seen], part: int, total: int) -> list[Seen]:
    """Return rows of all, where only `part` of `total` come so far as to be seen."""
    return [Seen(one.t_ms, one.rows * total // part) for one in seen]


def follow(look: Callable[[], Seen]) -> Callable[[], list[Seen]]:
    """Keep what each look sees, for one that is asked how far it has come and announces nothing."""
    seen: list[Seen] = []

    def read() -> list[Seen]:
        now = look()
        if not seen or now.rows > seen[-1].rows:
            seen.append(now)
        return seen

    return read


def until_all(read: Callable[[], list[Seen]], total: int, within_s: float, process: Child) -> list[Seen]:
    """Wait until all rows were seen, and return when. Raises ServerError when time is up or the process has ended."""
    seen: list[Seen] = []

    def all_seen() -> bool:
        seen[:] = read()
        return bool(seen) and seen[-1].rows >= total

    wait_for(f"{total:,} rows", within_s, all_seen, process, POLL_S)
    return seen


def _cumulate(steps: Iterable[tuple[float, int]]) -> list[Seen]:
    ordered = list(steps)
    return [Seen(t, rows) for (t, _), rows in zip(ordered, accumulate(rows for _, rows in ordered), strict=True)]
