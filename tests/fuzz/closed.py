"""What windows of a pipeline come to that a watermark has closed, in plain Python, and where two sinks differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from effectively_once import Pipeline, Windowed
from tests.fuzz.model import Group, starts_of
from tests.fuzz.results import result
from tests.fuzz.rows import Row


def find_closed(
    pipeline: Pipeline, each: Windowed, rows: Iterable[Row], watermark_ms: int | None
) -> dict[Group, list[Row]]:
    """Return accepted rows by key and start of their window, of windows that are closed."""
    length, found = each.length_ms or pipeline.window_ms, dict[Group, list[Row]]()
    for row in rows:
        for start in starts_of(pipeline, each, row["event_time_ms"]):
            if watermark_ms is not None and start + length + pipeline.lateness_ms <= watermark_ms:
                found.setdefault((tuple(row[name] for name in each.keys), start), []).append(row)
    return found


def compute_due(
    pipeline: Pipeline, each: Windowed, rows: Iterable[Row], watermark_ms: int | None
) -> tuple[list[Row], int]:
    """Return the results that its sink has to show, and how many groups have one that no sink takes."""
    due, impossible = list[Row](), 0
    for (key, start), group in find_closed(pipeline, each, rows, watermark_ms).items():
        values = {name: result(value, group, pipeline.row_schema)[0] for name, value in each.values.items()}
        if None in values.values():
            impossible += 1
        else:
            due.append({**dict(zip(each.keys, key, strict=True)), "window_start_ms": start, **values})
    return due, impossible


def count_by_window(rows: Iterable[Row], length_ms: int) -> dict[tuple[str, int], Row]:
    """Return what `COUNTED` is of accepted rows that have a user, by user and start of the window."""
    found: dict[tuple[str, int], Row] = {}
    for row in rows:
        if row["user"] is None:
            continue
        start = row["event_time_ms"] - row["event_time_ms"] % length_ms
        due = {"user": row["user"], "window_start_ms": start, "count": 0, "most": None}
        one = found.setdefault((row["user"], start), due)
        known = [value for value in (one["most"], row["m"]) if value is not None]
        one |= {"count": one["count"] + 1, "most": max(known, default=None)}
    return found


def differences(found: Iterable[Row], due: Iterable[Row], most: int = 3) -> list[Any]:
    """Return rows that are there too often, or not often enough, the first ones; nothing where both are the same."""
    there, wanted = Counter(map(_hashable, found)), Counter(map(_hashable, due))
    return [
        *(("too many", _short(one)) for one in [*(there - wanted)][:most]),
        *(("missing", _short(one)) for one in [*(wanted - there)][:most]),
    ]


def _hashable(row: Row) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(row.items()))


def _short(row: tuple[tuple[str, Any], ...]) -> dict[str, str]:
    """A message has no use for millions of characters."""
    return {name: repr(value)[:80] for name, value in row}
