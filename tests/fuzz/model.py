"""What a pipeline of these tests has to publish, in plain Python: no Arrow, no sums of 64 bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from effectively_once import Pipeline, Windowed
from tests.fuzz.declarations import price_of
from tests.fuzz.records import Record
from tests.fuzz.rows import Row, row_of

Group = tuple[tuple[Any, ...], int]
"""Key and start of a window."""


def starts_of(pipeline: Pipeline, each: Windowed, time_ms: int) -> list[int]:
    """Return where the windows begin that hold a time."""
    length = each.length_ms or pipeline.window_ms
    slide = each.slide_ms or length
    newest = time_ms - time_ms % slide
    return [newest - back for back in range(0, length, slide)]


@dataclass
class Expected:
    """What one epoch publishes.

    Attributes:
        accepted: rows, in order of offset.
        refused: offset -> reason.
        copies: offsets of records whose id was known.
        closed: windows by name -> key and start -> rows of it, as of the state before the epoch.

    """

    accepted: list[Row] = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)
    copies: list[int] = field(default_factory=list)
    closed: dict[str, dict[Group, list[Row]]] = field(default_factory=dict)


@dataclass
class Model:
    """The rules of dedup, lateness and windows."""

    pipeline: Pipeline
    watermark_ms: int | None = None
    _ids: dict[str, int] = field(default_factory=dict)
    _open: dict[str, dict[Group, list[Row]]] = field(default_factory=dict)
    _offset: int = 0

    def _closed(self, time_ms: int) -> bool:
        return self._ended(time_ms - time_ms % self.pipeline.window_ms + self.pipeline.window_ms)

    def _ended(self, end_ms: int) -> bool:
        return self.watermark_ms is not None and end_ms + self.pipeline.lateness_ms <= self.watermark_ms

    def epoch(self, records: Sequence[Record]) -> Expected:
        """Take the records of an epoch."""
        pipeline, found = self.pipeline, Expected()
        times = [] if self.watermark_ms is None else [self.watermark_ms]
        for each in pipeline.windows:
            groups = self._open.setdefault(each.name, {})
            length = each.length_ms or pipeline.window_ms
            due = [group for group in groups if self._ended(group[1] + length)]
            found.closed[each.name] = {group: groups.pop(group) for group in due}
        known = {id_: time_ms for id_, time_ms in self._ids.items() if not self._closed(time_ms)}
        for offset, record in enumerate(records, self._offset):
            row = row_of(pipeline, record.value, record.timestamp_ms)
            reason = row.pop("reason")
            if reason is None and pipeline.timed and self._closed(row["event_time_ms"]):
                reason = "late"
            if reason is not None:
                found.refused[offset] = reason
            elif pipeline.ids == "attached" and row["id"] in known:
                found.copies.append(offset)
            else:
                row |= {"topic": "trial", "partition": 0, "offset": offset}
                if pipeline.recorded is not None:
                    row["price"] = price_of(offset)
                found.accepted.append(row)
                if pipeline.ids == "attached":
                    known[row["id"]] = row["event_time_ms"]
                if pipeline.timed:
                    times.append(row["event_time_ms"])
                    self._count(row)
        self._offset, self._ids = self._offset + len(records), known
        self.watermark_ms = max(times, default=None)
        return found

    def _count(self, row: Row) -> None:
        for each in self.pipeline.windows:
            key, groups = tuple(row[name] for name in each.keys), self._open[each.name]
            for start in starts_of(self.pipeline, each, row["event_time_ms"]):
                groups.setdefault((key, start), []).append(row)
