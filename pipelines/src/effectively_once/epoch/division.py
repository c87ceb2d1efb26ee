"""How much of its input a shard takes at once: the first rows in source order, up to a bound in bytes of text.

Kafka tells offsets and no sizes, so only a shard that reads its input knows how large it is, and by then the epoch is
declared. So an epoch is divided by its shards. One with too much takes the first rows and says where it stopped; the
epoch after it reads the same ranges and takes the rest (`chain.repair`), before anything new is declared. Others take
all that they have, and nothing of the rest. Where a shard stops follows from what is pinned: its rows and the bound.
Every repeat of every driver stops there, so whatever is published already was divided alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from effectively_once import long_texts
from effectively_once.epoch import as_shown
from effectively_once.epoch.rows import empty
from effectively_once.ledger.records import Place
from effectively_once.pipeline.columns import COORDINATES
from effectively_once.pipeline.settings import SHARD_BYTES

if TYPE_CHECKING:
    from effectively_once.epoch.shard_step import ShardStep

_TEXTS = (pa.string(), pa.binary())


@dataclass(frozen=True)
class Part:
    """What a shard takes of its input.

    Attributes:
        rows: in source order.
        came: how many rows came, those among them that it does not take.
        left: the first one that it leaves to the next epoch; None where it leaves none.

    """

    rows: pa.Table
    came: int
    left: Place | None

    @property
    def told(self) -> dict[str, Any]:
        """What the driver is told of it."""
        return {"came": self.came, **({} if self.left is None else {"left": self.left})}


def input_of(step: ShardStep, batches: Iterable[pa.RecordBatch]) -> Part:
    """Read the rows of a shard to their end, and return those that its epoch takes.

    Args:
        step: the first one of an epoch.
        batches: rows of the shard, as `rows.judged` gives them, in any order.

    Raises:
        PipelineError: those of `batches`, and of `as_shown.input_of`.

    """
    pinned, shard = step.task.declaration, str(step.shard)
    bound = SHARD_BYTES if pinned.bytes_max is None else pinned.bytes_max
    if not pinned.shown:
        found = _Taker(step, bound)
        for batch in batches:
            found.take(batch)
        part = found.part()
    else:
        # Which rows it shows, or has left, is known by the coordinates of all.
        whole = _table(step, list(batches))
        mine = as_shown.input_of(step, whole)
        found = _Taker(step, None if pinned.repairs is None and shard in pinned.shown else bound)
        for batch in mine.to_batches():
            found.take(batch)
        part = Part(found.part().rows, whole.num_rows, found.part().left)
    step.lap("read")
    return part


class _Taker:
    """Keeps of rows as they come the first ones in source order; no more than twice the bound are in memory."""

    def __init__(self, step: ShardStep, bound: int | None) -> None:
        pinned = step.task.declaration
        self._step, self._bound = step, bound
        self._after = pinned.after.get(str(step.shard))
        # What was not left by the epoch before was taken by it. Of a repair, `as_shown` has said so already.
        self._nothing = pinned.repairs is not None and self._after is None and not pinned.shown
        self._held: list[pa.RecordBatch] = []
        self._bytes = self._came = 0
        self._left: Place | None = None

    def take(self, batch: pa.RecordBatch) -> None:
        """Take note of some rows."""
        self._came += batch.num_rows
        if self._nothing:
            return
        if self._after is not None:
            batch = batch.filter(pc.invert(_before(batch, self._after)))
        if self._left is not None:
            batch = batch.filter(_before(batch, self._left))
        if batch.num_rows:
            self._held.append(batch)
            self._bytes += int(sizes(batch).sum())
        if self._bound is not None and self._bytes > 2 * self._bound:
            self._cut(self._bound)

    def part(self) -> Part:
        """Return what is taken of all that came."""
        if self._bound is not None and self._bytes > self._bound:
            self._cut(self._bound)
        return Part(_table(self._step, self._held), self._came, self._left)

    def _cut(self, bound: int) -> None:
        """Leave what is beyond the bound. One row is taken, however large it is: else nobody would get past it."""
        rows = _table(self._step, self._held)
        ends = np.cumsum(sizes(rows))
        number = max(1, int(np.searchsorted(ends, bound, side="right")))
        if number < rows.num_rows:
            (first,) = rows.slice(number, 1).select(COORDINATES.names).to_pylist()
            self._left = first["topic"], first["partition"], first["offset"]
            # Copied: a slice would keep all of it in memory.
            rows = long_texts.taken(rows, np.arange(number))
        self._held, self._bytes = rows.to_batches(), int(ends[number - 1])


def sizes(rows: pa.Table | pa.RecordBatch) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return how many bytes of text each row has: what makes rows large, and the same in whatever batches they come."""
    total: np.ndarray[Any, np.dtype[np.int64]] = np.zeros(rows.num_rows, np.int64)
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        if column.type in _TEXTS and name != "topic":
            total += pc.fill_null(pc.binary_length(column), 0).to_numpy()
    return total


def _before(rows: pa.RecordBatch, place: Place) -> pa.Array:
    """Say which rows come before a place, in source order."""
    topic, partition, offset = place
    earlier = pc.and_(pc.equal(rows["partition"], partition), pc.less(rows["offset"], offset))
    earlier = pc.or_(pc.less(rows["partition"], partition), earlier)
    return pc.or_(pc.less(rows["topic"], topic), pc.and_(pc.equal(rows["topic"], topic), earlier))


def _table(step: ShardStep, batches: list[pa.RecordBatch]) -> pa.Table:
    return step.in_source_order(pa.Table.from_batches(batches) if batches else empty(step.task.pipeline))
