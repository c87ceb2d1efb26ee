"""Ledger state of windows (R7): aggregates by key and window of one shard, the fold of the deltas of the epochs.

What is kept of windows that overlap is by pane (`Windows`), under the start of the newest window that holds it, and is
added to each of them when that one closes. Of all others the pane is the window.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from effectively_once import long_texts
from effectively_once.state import keys, sums
from effectively_once.state.accumulator import Accumulators, Part
from effectively_once.state.cells import How
from effectively_once.state.deltas import LARGEST
from effectively_once.state.lateness import Windows

KEY, START = "key", "window_start_ms"
GROUP = (KEY, START)
PARTS = 16
"""Deltas of a window that are kept as they came; one more, and they become one."""
SHARED = 256
"""Rows of several windows that are one copy, which is in memory until the last of them closes. A copy takes some 0.02
ms, and event times may be spread over as many windows as there are rows."""


class Impossible(NamedTuple):
    """A result that no sink takes.

    Attributes:
        reason: why, of the first of its values that cannot be.
        exact: key and window as in a delta, and of each value the result, or what is known of it.
        shown: the same, with None for the values that cannot be.

    """

    reason: str
    exact: dict[str, Any]
    shown: dict[str, Any]


def schema(values: Accumulators) -> pa.Schema:
    """Columns of a delta."""
    return pa.schema([(KEY, pa.string()), (START, pa.int64()), *((name, part.type) for name, part in _parts(values))])


def merges(values: Accumulators) -> dict[str, How]:
    """How partial results in each column of a delta become one."""
    return {name: part.how for name, part in _parts(values)}


def partial(rows: pa.Table, by: Sequence[str], values: Accumulators, windows: Windows) -> pa.Table:
    """Aggregate rows (`by`, `event_time_ms`, columns of the values) to one a key and window: a delta's columns.

    It stands before the shuffle by key: what that moves are keys and windows, not rows.
    """
    return group_rows(place(rows, by, values, windows), merges(values))


def place(rows: pa.Table, by: Sequence[str], values: Accumulators, windows: Windows) -> pa.Table:
    """Return each row as the aggregate of itself alone, in its pane: once, however many windows hold it."""
    times = rows["event_time_ms"].to_numpy()
    # numpy's remainder is that of `Windows.start`, also before 1970.
    starts = pa.array(times - np.mod(times, windows.slide_ms))
    kept = [column for value in values.values() for column in value.of(rows)]
    return pa.table([keys.encode(rows, by), starts, *kept], schema=schema(values))


def group_rows(table: pa.Table, how: Mapping[str, How]) -> pa.Table:
    """Merge rows of equal key and window; a sum beyond 64 bits takes several rows (`sums`)."""
    return sums.group_rows(table, GROUP, how)


def final_of(table: pa.Table, values: Accumulators) -> tuple[pa.Table, list[Impossible]]:
    """Finish results, and tell those that can be published from the others.

    Args:
        table: what is kept, rows of a key and window beside each other; columns of a delta.
        values: what they are.

    Returns:
        Key and window of the former as in a delta, and their values, in order. The latter.

    """
    alone, wide = sums.separate(table, GROUP, merges(values))
    columns = {name: [alone[part] for part in parts] for name, parts in _names(values).items()}
    found = {name: values[name].results(columns[name]) for name in values}
    nulls = [column.is_null().to_numpy() for column in found.values() if column.null_count]
    results = pa.table({**{name: alone[name] for name in GROUP}, **found})
    if not nulls and not wide:
        return results, []
    beyond = np.logical_or.reduce(nulls) if nulls else np.zeros(alone.num_rows, bool)
    more = [*alone.filter(pa.array(beyond)).to_pylist(), *wide]
    finished = [(row, _finish(row, values)) for row in more]
    fit = [{**{name: row[name] for name in GROUP}, **shown} for row, shown in finished if None not in shown.values()]
    if beyond.any():
        results = results.filter(pa.array(~beyond))
    if fit:
        together = pa.concat_tables([results, pa.Table.from_pylist(fit, results.schema)])
        results = long_texts.sort(together, (START, KEY))
    impossible = [_impossible(row, shown, values) for row, shown in finished if None in shown.values()]
    return results, sorted(impossible, key=lambda one: (one.exact[START], one.exact[KEY]))


def largest(delta: pa.Table, values: Accumulators) -> int | None:
    """Say how large the largest value of a delta is whose result may come to nothing; None where there is none."""
    names = _names(values)
    sizes = [value.size([delta[part] for part in names[name]]) for name, value in values.items() if value.reason]
    summed = [name for name, part in _parts(values) if part.how == "sum"] if sizes else []
    if sums.largest(delta, summed) >= sums.LANE:
        # A part may have several rows, none of which is as large as their sum: all of them are full but the last one.
        sizes.append(sums.LANE)
    return min(max(sizes), LARGEST) if sizes else None


def limited(values: Accumulators) -> bool:
    """Whether a result may come to nothing that a sink takes."""
    return any(value.reason for value in values.values())


def _names(values: Accumulators) -> dict[str, list[str]]:
    """Columns of each value."""
    return {
        name: [f"{name}.{part.name}" if part.name else name for part in value.parts] for name, value in values.items()
    }


def _parts(values: Accumulators) -> Iterator[tuple[str, Part]]:
    for name, columns in _names(values).items():
        yield from zip(columns, values[name].parts, strict=True)


def _finish(row: Mapping[str, Any], values: Accumulators) -> dict[str, Any]:
    names = _names(values)
    return {name: value.finish([row[part] for part in names[name]]) for name, value in values.items()}


def _impossible(row: Mapping[str, Any], shown: Mapping[str, Any], values: Accumulators) -> Impossible:
    names, group = _names(values), {name: row[name] for name in GROUP}
    exact = {name: value.exact([row[part] for part in names[name]]) for name, value in values.items()}
    reasons = [values[name].reason for name, value in shown.items() if value is None]
    return Impossible(str(reasons[0]), group | exact, group | dict(shown))


def _shared(bounds: Sequence[int]) -> Iterator[Sequence[int]]:
    """Put windows together whose rows share a copy; `bounds` are those of the rows of each, beside each other."""
    first = 0
    for last in range(1, len(bounds)):
        if last + 1 == len(bounds) or bounds[last + 1] - bounds[first] > SHARED:
            yield bounds[first : last + 1]
            first = last


def _copy(rows: pa.RecordBatch, places: pa.Array) -> pa.RecordBatch:
    return rows.take(places)


def _move(part: pa.RecordBatch, window_ms: int) -> pa.RecordBatch:
    """Return rows of one pane as rows of a window."""
    at = part.schema.get_field_index(START)
    return part.set_column(at, part.schema.field(at), pa.repeat(window_ms, part.num_rows))


class WindowState:
    """Aggregates of the windows that are still open in one shard, by pane."""

    def __init__(self, windows: Windows, values: Accumulators) -> None:
        self._windows, self._how = windows, merges(values)
        # Of what may come to another result in other parts, all see the same parts: those that deltas have.
        self._merges = not any(part.apart for _, part in _parts(values))
        self._schema = schema(values)
        self._parts: dict[int, list[pa.RecordBatch]] = {}

    def fold(self, delta: pa.Table) -> None:
        """Add one epoch's delta, or several merged."""
        full: list[pa.RecordBatch] = []
        for start, part in self._by_window(delta.cast(self._schema)):
            parts = self._parts.setdefault(start, [])
            parts.append(part)
            if len(parts) > PARTS and self._merges:
                full += self._parts.pop(start)
        if full:
            # All at once: event times may be spread over as many windows as there are rows.
            self._parts.update((start, [part]) for start, part in self._by_window(self._one(full)))

    def expire(self, watermark_ms: int | None) -> None:
        """Drop the panes whose windows `watermark_ms` closed, all of them: it was pinned by the epoch that emitted."""
        for start in [s for s in self._parts if self._windows.closed(s, watermark_ms)]:
            del self._parts[start]

    def count_held(self, watermark_ms: int | None, front_ms: int | None) -> dict[int, int]:
        """Count rows by the start of their pane (ms), of those that `front_ms` would let go and `watermark_ms` not.

        They are kept only because somebody is behind that time.
        """
        return {
            start: sum(part.num_rows for part in parts)
            for start, parts in self._parts.items()
            if self._windows.newly_closed(start, watermark_ms, front_ms)
        }

    def final(self, previous_ms: int | None, watermark_ms: int | None) -> pa.Table:
        """Results of the windows that this epoch closes, in order of window and key; columns of a delta."""
        closing = [
            part if window == pane else _move(part, window)
            for pane, parts in self._parts.items()
            for window in self._find_closing(pane, previous_ms, watermark_ms)
            for part in parts
        ]
        return long_texts.sort(self._one(closing), (START, KEY))

    def _find_closing(self, pane: int, previous_ms: int | None, watermark_ms: int | None) -> Iterator[int]:
        """Yield the starts of the windows that this epoch closes, of those that hold a pane."""
        for start in self._windows.holding(pane):
            if not self._windows.closed(start, watermark_ms):
                # Nor are the newer ones.
                return
            if self._windows.newly_closed(start, previous_ms, watermark_ms):
                yield start

    def _by_window(self, rows: pa.Table) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Divide rows by pane, each part of a copy: a slice would keep all rows in memory until its window closes."""
        for whole in rows.combine_chunks().to_batches() if rows.num_rows else ():
            starts = whole[START].to_numpy()
            order = np.argsort(starts, kind="stable")
            ordered = starts[order]
            bounds = [0, *(np.flatnonzero(np.diff(ordered)) + 1).tolist(), len(starts)]
            places = pa.array(order)
            for windows in _shared(bounds):
                first, size = windows[0], windows[-1] - windows[0]
                alone = len(windows) == 2 and size == len(starts)
                copy = whole if alone else _copy(whole, places.slice(first, size))
                for begin, end in pairwise(windows):
                    yield int(ordered[begin]), copy.slice(begin - first, end - begin) if end - begin < size else copy

    def _one(self, parts: Sequence[pa.RecordBatch]) -> pa.Table:
        return group_rows(pa.Table.from_batches(parts, self._schema), self._how)


def canonical(delta: pa.Table) -> pa.Table:
    """Return the columns that the rows of a delta are digested by: all of them."""
    return delta
