"""Exact sums by group, of whole numbers of 64 bits; and with them the least, the largest, and cells (`cells`).

A sum that 64 bits do not hold is several rows, *lanes*, whose exact sum it is: all of them are as large as a row can
be, but the last one. So what is shuffled, kept in deltas, merged and added up later needs no other type; a group
whose sums fit is one row, the same as ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from effectively_once import long_texts
from effectively_once.state.cells import How

LANE = 2**63 - 1
"""The largest row of a sum, and of its negative."""
_LEAST = -(2**63)
_TEXTS = (pa.string(), pa.binary())
_ROW = "a row"
"""No name of a value has a blank."""
_HALF = 32
_LOW = 2**_HALF - 1


def largest(table: pa.Table, names: Sequence[str]) -> int:
    """Size of the largest value of some columns."""
    return max((largest_of(table[name]) for name in names), default=0)


def largest_of(column: pa.ChunkedArray) -> int:
    """Size of the largest value of a column, 0 of none."""
    ends = pc.min_max(column).as_py() if len(column) else {"min": 0, "max": 0}
    return max(0, -ends["min"], ends["max"])


def group_rows(table: pa.Table, by: Sequence[str], how: Mapping[str, How]) -> pa.Table:
    """Merge rows that are equal in `by`, to one row a group, or to as many as its largest sum has lanes.

    Args:
        table: columns `by`, and those of `how`: int64, or binary where they are not summed.
        by: columns that a group is equal in.
        how: column -> how its values become one.

    """
    summed = [name for name, merge in how.items() if merge == "sum"]
    # Arrow's sums wrap. These cannot, which takes no grouping to see.
    if largest(table, summed) * table.num_rows <= LANE:
        return _aggregate(table, by, how)
    # A half has room for the carries of 2^31 rows.
    halves = {f"{name} {half}": name for name in summed for half in ("high", "low")}
    columns = {**{name: table[name] for name in by}, **{n: table[n] for n, merge in how.items() if merge != "sum"}}
    for name in summed:
        columns[f"{name} high"] = pc.shift_right(table[name], _HALF)
        columns[f"{name} low"] = pc.bit_wise_and(table[name], _LOW)
    every: dict[str, How] = {**{n: m for n, m in how.items() if m != "sum"}, **dict.fromkeys(halves, "sum")}
    found = _aggregate(pa.table(columns), by, every)
    return _join_halves(found, by, how)


def separate(table: pa.Table, by: Sequence[str], how: Mapping[str, How]) -> tuple[pa.Table, list[dict[str, Any]]]:
    """Tell groups of one row from those of several lanes.

    Args:
        table: as `group_rows` gives it, rows of a group beside each other.
        by: as it was given there.
        how: as it was given there.

    Returns:
        The rows of the former; of each of the latter a dictionary with its exact sums, in order.

    """
    if table.num_rows < 2:
        return table, []
    same = np.ones(table.num_rows - 1, bool)
    for name in by:
        column = table[name]
        same &= pc.equal(column.slice(1), column.slice(0, table.num_rows - 1)).to_numpy()
    if not same.any():
        return table, []
    follows, leads = np.append(False, same), np.append(same, False)
    wide: list[dict[str, Any]] = []
    lanes = table.filter(pa.array(follows | leads)).to_pylist()
    for begins, lane in zip(~follows[follows | leads], lanes, strict=True):
        if begins:
            wide.append(lane)
        else:
            wide[-1] |= {name: wide[-1][name] + lane[name] for name, merge in how.items() if merge == "sum"}
    return table.filter(pa.array(~(follows | leads))), wide


def holds(value: int) -> bool:
    """Whether 64 bits hold a number."""
    return _LEAST <= value <= LANE


def _aggregate(table: pa.Table, by: Sequence[str], how: Mapping[str, How]) -> pa.Table:
    columns = {name: merge for name, merge in how.items() if isinstance(merge, str)}
    cells = {name: merge for name, merge in how.items() if not isinstance(merge, str)}
    texts = {name: table[name].type for name in (*by, *columns) if table[name].type in _TEXTS}
    given, asked = table.select([*by, *columns]), [(name, str(merge)) for name, merge in columns.items()]
    for name in texts:
        given = given.set_column(given.column_names.index(name), name, long_texts.wide(given[name]))
    if cells:
        given = given.append_column(_ROW, pa.array(np.arange(table.num_rows)))
        asked.append((_ROW, "list"))
    done = given.group_by([*by], use_threads=False).aggregate(asked)
    found = {name: done[name] for name in by}
    found |= {name: done[f"{name}_{merge}"] for name, merge in columns.items()}
    for name, kind in texts.items():
        found[name] = long_texts.divide(found[name], kind)
    if cells:
        rows = done[f"{_ROW}_list"].combine_chunks()
        groups = np.empty(table.num_rows, np.int64)
        groups[rows.flatten().to_numpy()] = np.repeat(np.arange(len(rows)), rows.value_lengths().to_numpy())
        for name, merge in cells.items():
            merged = merge.merge(long_texts.whole(table[name]), groups, len(rows))
            found[name] = long_texts.divide(pa.chunked_array([merged]), table[name].type)
    return pa.table({name: found[name] for name in (*by, *how)})


def _join_halves(found: pa.Table, by: Sequence[str], how: Mapping[str, How]) -> pa.Table:
    """Put the halves of sums together."""
    number = found.num_rows
    columns: dict[str, np.ndarray[tuple[int], np.dtype[np.int64]]] = {}
    wide: dict[str, dict[int, list[int]]] = {}
    lanes = np.ones(number, np.int64)
    for name in (name for name, merge in how.items() if merge == "sum"):
        high, low = (found[f"{name} {half}"].to_numpy() for half in ("high", "low"))
        high = high + (low >> _HALF)
        low = low & _LOW
        columns[name] = (high << _HALF) | low
        beyond = np.flatnonzero((high < -(2**31)) | (high >= 2**31))
        wide[name] = {int(at): _lanes((int(high[at]) << _HALF) + int(low[at])) for at in beyond}
        for at, parts in wide[name].items():
            lanes[at] = max(lanes[at], len(parts))
    rows, ends = np.repeat(np.arange(number), lanes), np.cumsum(lanes)
    starts = ends - lanes
    others = long_texts.take(found.select([name for name in (*by, *how) if name not in columns]), rows)
    done = {name: others[name] for name in others.column_names}
    follows = np.ones(len(rows), bool)
    follows[starts] = False
    for name in (name for name, merge in how.items() if not isinstance(merge, str)):
        # Unlike the least and the largest, a cell that is there twice may count twice.
        done[name] = pc.if_else(pa.array(follows), pa.scalar(b"", pa.binary()), done[name])
    for name, values in columns.items():
        laid = np.zeros(len(rows), np.int64)
        laid[starts] = values
        for at, parts in wide[name].items():
            laid[starts[at] : starts[at] + len(parts)] = parts
        done[name] = pa.chunked_array([laid])
    return pa.table({name: done[name] for name in (*by, *how)})


def _lanes(value: int) -> list[int]:
    full, rest = divmod(abs(value), LANE)
    sign = 1 if value > 0 else -1
    return [sign * LANE] * full + ([sign * rest] if rest else [])
