"""How much of its input a shard takes at once: the first rows in source order, up to a bound in bytes of text.

Kafka tells offsets and no sizes, so only a shard that reads its input knows how large it is, and by then the epoch is
declared. So an epoch is divided by its shards. One with too much takes the first rows and says where it stopped; the
epoch after it reads the same ranges and takes the rest (`due_epoch.repair`), before anything new is declared. Others
take all that they have, and nothing of the rest. Where a shard stops follows from what is pinned: its rows and the
bound. Every repeat of every driver stops there, so whatever is published already was divided alike.
A record is not cut: of one with several rows a shard takes all that it has of them, or none.
Every part gets all rows of the shard once more. They have to be those of before, or a row whose id is another in each
attempt would be in no part, or in two.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from effectively_once import long_texts
from effectively_once.epoch import as_shown
from effectively_once.epoch.whole_input import count_records, digest_of
from effectively_once.errors import SinkError
from effectively_once.ledger.declaration import SHARD_BYTES
from effectively_once.ledger.offsets import Place
from effectively_once.ledger.rows import Rows
from effectively_once.pipeline.columns import COORDINATES, of_shards

if TYPE_CHECKING:
    from effectively_once.epoch.shard_step import ShardStep

_TEXTS = (pa.string(), pa.binary())


@dataclass(frozen=True)
class Part:
    """What a shard takes of its input.

    Attributes:
        rows: in source order.
        came: all rows that came, those among them that it does not take: their number, and digest of coordinates.
        left: the first one that it leaves to the next epoch; None where it leaves none.
        records: how many came; None where that is the number of rows.

    """

    rows: pa.Table
    came: Rows
    left: Place | None
    records: int | None = None

    @property
    def report(self) -> dict[str, Any]:
        """What the driver is told of it."""
        told = {"came": self.came.rows if self.records is None else self.records}
        return told if self.left is None else {**told, "left": self.left, "input": self.came.model_dump()}


def input_of(step: ShardStep, batches: Iterable[pa.RecordBatch]) -> Part:
    """Read the rows of a shard to their end, and return those that its epoch takes.

    Args:
        step: the first one of an epoch.
        batches: rows of the shard, as `rows.judge` gives them, in any order.

    Raises:
        PipelineError: those of `batches`, and of `as_shown.input_of`.
        SinkError: other rows came than when the epoch was divided whose rest this one takes.

    """
    pinned, shard = step.task.declaration, str(step.shard)
    bound = SHARD_BYTES if pinned.bytes_max is None else pinned.bytes_max
    whole: pa.Table | None = None
    if pinned.shown:
        # Which rows it shows, or has left, is known by the coordinates of all.
        whole = _table(step, list(batches))
        batches = as_shown.input_of(step, whole).to_batches()
    found = _Taker(step, None if pinned.repairs is None and shard in pinned.shown else bound)
    for batch in batches:
        found.take(batch)
    part = found.part()
    if whole is not None:
        part = replace(part, came=_rows(whole.num_rows, digest_of(whole, step.task.pipeline.digested)))
    _require_the_same(step, part.came)
    step.lap("read")
    return part


def _require_the_same(step: ShardStep, came: Rows) -> None:
    """Refuse a rest of which a row is in another shard than when its epoch was divided: it would be lost or doubled."""
    pinned = step.task.declaration
    due = None if pinned.is_abandoned else pinned.came.get(str(step.shard))
    if due is not None and due != came:
        raise SinkError(
            f"{came.rows} rows came to shard {step.shard}, and {due.rows} others when its epoch was divided",
            f"epoch {pinned.epoch}",
            "What gives a record its id is not deterministic, or is another version's: start the version that divided "
            "the epoch, and let a recorded step give what is by chance.",
        )


class _Taker:
    """Keeps of rows as they come the first ones in source order; no more than twice the bound are in memory."""

    def __init__(self, step: ShardStep, bound: int | None) -> None:
        pinned = step.task.declaration
        self._step, self._bound = step, bound
        self._after = pinned.after.get(str(step.shard))
        # What was not left by the epoch before was taken by it. Of a repair, `as_shown` has said so already.
        self._nothing = pinned.repairs is not None and self._after is None and not pinned.shown
        self._held: list[pa.RecordBatch] = []
        self._bytes = self._number = self._records = self._digest = 0
        self._pipeline = step.task.pipeline
        # Nearly no epoch is divided: until one is, its rows are at hand, and nobody digests them.
        self._digests = pinned.repairs is not None
        self._left: Place | None = None

    def take(self, batch: pa.RecordBatch) -> None:
        """Take note of some rows."""
        self._number += batch.num_rows
        self._records += count_records(self._pipeline, batch)
        if self._digests:
            self._digest += digest_of(batch, self._pipeline.digested)
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
        records = None if self._pipeline.explode is None else self._records
        return Part(_table(self._step, self._held), _rows(self._number, self._digest), self._left, records)

    def _cut(self, bound: int) -> None:
        """Leave what is beyond the bound. One record is taken, however large: else nobody would get past it."""
        if not self._digests:
            self._digest = sum(digest_of(batch, self._pipeline.digested) for batch in self._held)
            self._digests = True
        rows = _table(self._step, self._held)
        ends = np.cumsum(sizes(rows))
        number = max(1, int(np.searchsorted(ends, bound, side="right")))
        if self._pipeline.explode is not None:
            number = _at_record(rows, number)
        if number < rows.num_rows:
            (first,) = rows.slice(number, 1).select(COORDINATES.names).to_pylist()
            self._left = first["topic"], first["partition"], first["offset"]
            # Copied: a slice would keep all of it in memory.
            rows = long_texts.take(rows, np.arange(number))
        self._held, self._bytes = rows.to_batches(), int(ends[number - 1])


def _at_record(rows: pa.Table, number: int) -> int:
    """Return how many of the first rows are whole records: no more than so many, but the first record at least.

    What goes on with a part knows of a place what is before it, and rows of one record are at one place.
    """
    firsts = np.zeros(rows.num_rows, np.bool_)
    for name in ("partition", "offset"):
        values = rows[name].to_numpy()
        firsts[1:] |= values[1:] != values[:-1]
    topics = rows["topic"].combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    firsts[1:] |= topics[1:] != topics[:-1]
    begins = np.append(np.flatnonzero(firsts), rows.num_rows)
    before = begins[begins <= number]
    return int(before[-1] if len(before) else begins[0])


def _rows(number: int, digest: int) -> Rows:
    """So many rows, and the sum of their digests: the same in whatever order they came."""
    return Rows(rows=number, digest=f"{digest & ((1 << 64) - 1):016x}")


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
    schema = batches[0].schema if batches else of_shards(step.task.pipeline.judged)
    return step.in_source_order(pa.Table.from_batches(batches, schema))
