"""An author's own aggregate: what is kept is JSON, and an error of the functions stops no pipeline."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from effectively_once.errors import SettingsError
from effectively_once.state import ordered, sums
from effectively_once.state.accumulator import BAD_RESULT, Accumulator, Part
from effectively_once.state.aggregates import OwnAggregate

_ROW, _KEPT, _FAULT = b"+", b"=", b"!"
"""How a cell begins: the values of a row, what is kept of some, or why nothing can be."""
_WORD = 200
_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")
TEXT_BYTES = 4_096
"""Of a result that is text: what is no text of the input has to be bounded too."""
_TRIED: ContextVar[bool] = ContextVar("effectively_once_tried", default=False)


@contextmanager
def try_merges() -> Iterator[None]:
    """Have what is merged be merged in other ways too, and refuse an aggregate whose results differ (`Trial`).

    Raises:
        SettingsError: from within, naming both results and the way.

    """
    before = _TRIED.set(True)
    try:
        yield
    finally:
        _TRIED.reset(before)


class Own(Accumulator):
    """See `OwnAggregate`."""

    reason = BAD_RESULT

    def __init__(self, declared: OwnAggregate, kinds: Sequence[pa.DataType]) -> None:
        self.declared, self._kinds, self.result = declared, kinds, declared.result
        self.parts = (Part("", pa.binary(), _Merging(declared, tuple(kinds)), apart=True),)
        # As JSON within JSON, where a character is twice as long again.
        self.json_bytes = 12 * TEXT_BYTES if declared.result in (pa.string(), pa.binary()) else 0

    def of(self, rows: pa.Table) -> Sequence[pa.Array | pa.ChunkedArray]:
        """See Accumulator."""
        values = zip(*(rows[name].to_pylist() for name in self.declared.columns), strict=True)
        return [pa.array([_ROW + _encode(list(one)) for one in values], pa.binary())]

    def finish(self, kept: Sequence[Any]) -> Any:
        """See Accumulator."""
        return _finish(self.declared, kept[0])[0]

    def exact(self, kept: Sequence[Any]) -> Any:
        """See Accumulator."""
        return _finish(self.declared, kept[0])[1]

    def size(self, kept: Sequence[pa.ChunkedArray]) -> int:
        """See Accumulator."""
        return sums.LANE if len(kept[0]) else 0


@dataclass(frozen=True)
class _Merging:
    declared: OwnAggregate
    kinds: tuple[pa.DataType, ...]

    def merge(self, cells: pa.Array, groups: NDArray[np.int64], number: int) -> pa.Array:
        """See `cells.Cells`."""
        found: list[list[bytes]] = [[] for _ in range(number)]
        for group, cell in zip(groups.tolist(), cells.to_pylist(), strict=True):
            if cell:
                found[group].append(cell)
        # In order of their bytes: rows come from a shuffle in any, and a repeat has to come to the same.
        merged = [self._one(sorted(some)) for some in found]
        if _TRIED.get():
            for some, one in zip(found, merged, strict=True):
                self._try(sorted(some), one)
        return pa.array(merged, pa.large_binary())

    def _one(self, some: Sequence[bytes]) -> bytes:
        """Add rows to one, merge the others with it, in order."""
        if not some or (len(some) == 1 and not some[0].startswith(_ROW)):
            return b"".join(some)
        if faults := [cell for cell in some if cell.startswith(_FAULT)]:
            return faults[0]
        try:
            rows = [cell for cell in some if cell.startswith(_ROW)]
            kept = [orjson.loads(cell[1:]) for cell in some if cell.startswith(_KEPT)]
            if rows:
                kept.append(self._add(rows))
            whole = kept[0]
            for other in kept[1:]:
                whole = self.declared.merge(whole, other)
            return _KEPT + _encode(whole)
        except MemoryError:
            # Of this worker, and not of the aggregate.
            raise
        except Exception as error:
            return _fault(error)

    def _add(self, rows: Sequence[bytes]) -> Any:
        # A copy, as JSON has it: `add` may change what it is given, and `zero` may return one object again and again.
        whole = orjson.loads(_encode(self.declared.zero()))
        for row in rows:
            values = zip(orjson.loads(row[1:]), self.kinds, strict=True)
            whole = self.declared.add(whole, *(ordered.of_json(value, kind) for value, kind in values))
        return whole

    def _try(self, some: Sequence[bytes], one: bytes) -> None:
        """Refuse an aggregate whose result depends on how rows were divided, or in which order they came."""
        result = _finish(self.declared, one)
        for way, cell in self._others(some):
            # Errors are alike: in which words is the author's.
            if (other := _finish(self.declared, cell))[0] != result[0]:
                raise SettingsError(
                    f"an aggregate of {', '.join(self.declared.columns)} is {result[1]:.80}, and {other[1]:.80} {way}",
                    "OwnAggregate",
                    "Let `merge` of any two parts come to what `add` of all their rows does, in any order.",
                )

    def _others(self, some: Sequence[bytes]) -> Iterator[tuple[str, bytes]]:
        try:
            zero = [_KEPT + _encode(self.declared.zero())]
        except Exception as error:
            zero = [_fault(error)]
        alone = [self._one([*zero, cell]) for cell in some]
        yield "where each row is merged alone", self._one(alone)
        yield "where they come the other way round", self._backwards(alone)
        half = len(some) // 2
        halves = [self._one(part) for part in (some[half:], some[:half]) if part]
        yield "where two halves are merged", self._one(halves)

    def _backwards(self, cells: Sequence[bytes]) -> bytes:
        whole = cells[-1] if cells else b""
        for cell in reversed(cells[:-1]):
            if whole.startswith(_FAULT) or cell.startswith(_FAULT):
                return whole
            try:
                whole = _KEPT + _encode(self.declared.merge(*(orjson.loads(one[1:]) for one in (whole, cell))))
            except Exception as error:
                return _fault(error)
        return whole


def _finish(declared: OwnAggregate, cell: bytes) -> tuple[Any, str]:
    """Return the result, None where there is none; and what to say of it."""
    if cell.startswith(_FAULT):
        return None, cell[1:].decode()
    try:
        found = declared.finish(orjson.loads(cell[1:]) if cell else declared.zero())
        held = pa.scalar(found, declared.result).as_py()
    except MemoryError:
        raise
    except Exception as error:
        return None, _fault(error)[1:].decode()
    if isinstance(held, float) and not np.isfinite(held):
        return None, str(held)
    if isinstance(held, str | bytes) and not _takes(held):
        return None, f"a text of more than {TEXT_BYTES} bytes, or with a zero byte"
    return held, "None" if held is None else str(ordered.as_json(held))


def _takes(text: str | bytes) -> bool:
    """Whether every sink takes a text."""
    content = text.encode() if isinstance(text, str) else text
    return len(content) <= TEXT_BYTES and (isinstance(text, bytes) or "\0" not in text)


def _encode(value: Any) -> bytes:
    return orjson.dumps(value, default=ordered.as_json, option=orjson.OPT_SORT_KEYS)


def _fault(error: Exception) -> bytes:
    # Where an object lies in memory is another place in each attempt, and a repeat has to tell the same.
    text = _ADDRESS.sub("", f"{type(error).__name__}: {error}")
    return _FAULT + text[:_WORD].encode(errors="replace")
