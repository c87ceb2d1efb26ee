"""Deltas: what epochs add to the state of one shard, written once, folded in the order of the chain (R5)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from effectively_once.errors import ChainError, SinkError
from effectively_once.ledger import digest
from effectively_once.ledger.delta import Delta, Folded, Span
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import ObjectStore, body_of, create_once, run
from effectively_once.side_by_side import take_each
from effectively_once.state import homes

Canonical = Callable[[pa.Table], pa.Table]
"""Columns that the rows of a delta are digested by."""


class State(Protocol):
    """State that is a fold of deltas."""

    def fold(self, delta: pa.Table) -> None:
        """Add one epoch's delta, or several merged."""
        ...

    def expire(self, watermark_ms: int | None) -> None:
        """Drop what a watermark closes."""
        ...


S = TypeVar("S", bound=State)

INLINE_BYTES = 1024
"""Up to here a delta travels in its epoch's record: an object costs a request, head has room for 64 such records."""

READERS, READ_ROWS = 8, 1 << 19
"""Objects that are read at a time, and rows that these have together: the largest spans are read alone."""

LARGEST = 2**63

END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""What a writer of an Arrow stream closes it with: the length of a message that is none."""

DAMAGE = (pa.ArrowException, OSError, ValueError, KeyError, AttributeError, MemoryError)
"""What decoding damaged bytes comes to: bad metadata, a cut-off body, bad text, a column or a value missing."""


@dataclass(frozen=True, slots=True)
class Named:
    """A delta as the chain names it, or the span that stands for those of several epochs.

    Attributes:
        epoch: whose delta it is; the last one of a span.
        anew: as of `Declaration.decides`; None for a span.
        shards: how many there were when it was decided; None where that is the number of now.
        shard: whose it is, where that is another one than whoever folds it: it takes of it what has moved to it.

    """

    epoch: int
    rows: Delta | Span
    anew: int | None = None
    shards: int | None = None
    shard: int | None = None

    @property
    def first(self) -> int:
        """First epoch of a span; of a delta, its only one."""
        return self.rows.first if isinstance(self.rows, Span) else self.epoch

    @property
    def inline(self) -> str | None:
        """Rows that travel in the epoch's record."""
        return self.rows.inline if isinstance(self.rows, Delta) else None

    def key(self, layout: Layout, kind: str, shard: int) -> str | None:
        """Name its object; None where there is none, as it has no rows or they are inline."""
        if not self.rows.rows or self.inline is not None:
            return None
        shard = shard if self.shard is None else self.shard
        if isinstance(self.rows, Span):
            return layout.span(kind, self.first, self.epoch, shard)
        return layout.delta(kind, self.epoch, shard, self.anew)


def largest(parts: Iterable[Folded]) -> int | None:
    """What no sum of a key and window over all of some parts exceeds, as `Folded` says it; those without rows count 0.

    None when one of them does not tell, or none has rows.
    """
    sizes = [part.largest for part in parts if part.rows]
    known = [size for size in sizes if size is not None]
    return min(sum(known), LARGEST) if known and len(known) == len(sizes) else None


def encode(table: pa.Table) -> bytes:
    """Arrow stream of a table."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    body: bytes = sink.getvalue().to_pybytes()
    return body


def decode(body: bytes) -> pa.Table:
    """Table of an Arrow stream; damaged bytes raise one of DAMAGE, and so does a stream that was cut."""
    content = pa.py_buffer(body)
    batches, end = content.slice(0, max(0, content.size - len(END))), content[-len(END) :]
    source = pa.BufferReader(batches)
    table = pa.ipc.open_stream(source).read_all()
    # Arrow takes a stream that was cut between two batches for a whole one: the end has to be where the batches end.
    if end.to_pybytes() != END or source.tell() != batches.size:
        raise pa.ArrowInvalid(f"the stream does not come to its end: {table.num_rows} rows in {content.size} bytes")
    # Offsets that point out of their buffer would otherwise be followed, and end the process.
    table.validate(full=True)
    return table


def list_own(named: Mapping[int, list[Named]], shard: int, shards: int) -> list[Named]:
    """Return the deltas of one kind that were decided for a shard of this number of shards, oldest first."""
    return [entry for entry in named.get(shard, []) if entry.shards in (None, shards)]


def list_all(named: Mapping[int, list[Named]], shard: int, shards: int) -> list[Named]:
    """Return the deltas of one kind that may have rows of a shard, oldest first.

    Those of epochs with another number of shards are all of them named: rows of the shard may be in each.
    """
    of_others = [
        replace(entry, shard=other)
        for other, entries in named.items()
        for entry in entries
        if entry.shards not in (None, shards)
    ]
    own = list_own(named, shard, shards)
    return sorted([*of_others, *own], key=lambda entry: entry.epoch) if of_others else own


@dataclass(frozen=True, slots=True)
class ShardDeltas:
    """The deltas of one kind and shard.

    Attributes:
        canonical: gives the columns that rows are digested by.
        inline_bytes: up to here a delta travels in the epoch's record.
        anew: names what is written, as of `Declaration.decides`.
        shards: how many there are.

    """

    store: ObjectStore
    layout: Layout
    kind: str
    shard: int
    canonical: Canonical
    inline_bytes: int = 0
    anew: int | None = None
    shards: int | None = None

    def write(self, epoch: int, table: pa.Table) -> Delta:
        """Write the delta of an epoch unless it is there, and return what the chain is to record.

        An empty delta is not written at all, a small one is returned inline: a repeat decides it anew from the same
        pinned input and state, and the chain records it with the epoch.

        Raises:
            SinkError: the delta that is there differs: the step before it was not deterministic (R4).

        """
        ours = Delta(rows=table.num_rows, digest=self.digest_rows(table))
        if not ours.rows:
            return ours
        if table.nbytes <= self.inline_bytes:
            text = json.dumps({name: _as_json(table[name]) for name in table.column_names}, separators=(",", ":"))
            return ours.model_copy(update={"inline": text, "bytes": len(text)})
        key = self.layout.delta(self.kind, epoch, self.shard, self.anew)
        held, theirs = self.create(key, table, ours.digest)
        if theirs != ours.digest:
            raise SinkError(
                f"a repeat of epoch {epoch} decided otherwise in step {self.kind!r}, shard {self.shard}",
                key,
                "The step is not deterministic: record its outside inputs (stable input) before it decides. "
                "What is decided stays: `effectively-once repair` tells how to go on.",
            )
        return ours.model_copy(update={"bytes": held})

    def create(self, key: str, table: pa.Table, ours: str) -> tuple[int, str]:
        """Create an object of rows, whose digest is `ours`, unless it is there; return size and digest of what holds.

        Raises:
            ChainError: what is there cannot be read.

        """
        body = encode(table)
        held = run(create_once(key, body), self.store)
        return len(held), ours if held == body else self._digest(self._decode(held, key), key, like=ours)

    def read_created(self, epoch: int) -> Delta | None:
        """Return the delta of an epoch that has an object, be the epoch recorded or not.

        Raises:
            ChainError: it cannot be read.

        """
        key = self.layout.delta(self.kind, epoch, self.shard, self.anew)
        body = run(body_of(key), self.store)
        if body is None:
            return None
        table = self._decode(body, key)
        return Delta(rows=table.num_rows, digest=self._digest(table, key), bytes=len(body))

    def read(self, named: Named) -> pa.Table:
        """Read rows that the chain names, if there are any.

        Raises:
            ChainError: they are missing, or are not what the chain recorded.

        """
        table = self.read_unchecked(named)
        key = named.key(self.layout, self.kind, self.shard)
        if key is not None and self._digest(table, key, named.rows.digest) != named.rows.digest:
            raise _corrupt(key, "its rows are not those the chain names")
        return table

    def read_unchecked(self, named: Named) -> pa.Table:
        """Read rows without a look at their digest, for whoever checks them together with others.

        Raises:
            ChainError: they are missing, or cannot be read.

        """
        key = named.key(self.layout, self.kind, self.shard)
        if key is None:
            # Text, whole numbers and bytes are all a delta holds, and Arrow infers the first two as such.
            return pa.table({name: _of_json(values) for name, values in json.loads(named.inline or "{}").items()})
        found = run(body_of(key), self.store)
        if found is None:
            raise ChainError(
                "a delta that the chain names is missing", key, "Restore it from the bucket's versions or a backup."
            )
        return self._decode(found, key)

    def _decode(self, body: bytes, key: str) -> pa.Table:
        try:
            return decode(body)
        except DAMAGE as error:
            raise _corrupt(key, str(error)) from error

    def digest_rows(self, table: pa.Table, like: str = digest.EMPTY) -> str:
        """Digest rows of this kind, in the form of the digest `like`."""
        return digest.of_rows_in(self.canonical(table), like)

    def _digest(self, table: pa.Table, key: str, like: str = digest.EMPTY) -> str:
        try:
            return self.digest_rows(table, like)
        except DAMAGE as error:
            raise _corrupt(key, str(error)) from error


class FoldCache:
    """Keeps folded state between tasks of one Python worker.

    What is kept is the fold of recorded epochs only, and deltas are create-once, so it can be behind the chain but
    never wrong; when it is ahead of what a task asks for (a repeat of an older epoch), the task folds anew.
    """

    def __init__(self) -> None:
        # A shard of another number of shards is another shard.
        self._kept: dict[tuple[str, str, int, int | None], tuple[int, State]] = {}
        self._written: dict[tuple[str, str, int, int | None], tuple[int, str, pa.Table]] = {}

    def wrote(self, log: ShardDeltas, epoch: int, digest: str, table: pa.Table) -> None:
        """Keep a delta that this worker decided: the next epoch need not read it back if it is what the chain names."""
        self._written[_where(log)] = (epoch, digest, table)

    def state(self, log: ShardDeltas, fresh: Callable[[], S], named: list[Named], epoch: int) -> S:
        """State before `epoch`: the fold of what is `named`, which is that of epochs >= floor and < `epoch`, in order.

        A span that began before what is kept ends, and ends after it, cannot be added to it: then all is folded anew.
        """
        where = _where(log)
        # Taken out while it changes: a fold that fails half-way must not be found again.
        folded, state = self._kept.pop(where, (-1, None))
        if state is None or folded >= epoch or any(entry.first <= folded < entry.epoch for entry in named):
            folded, state = -1, fresh()
        due = [(entry.rows.rows, entry) for entry in named if entry.epoch > folded and entry.rows.rows]
        # A worker that is new folds all that lives: it waits for several at once, and adds them in the chain's order.
        take_each("fold", partial(self._rows, log), due, state.fold, at_once=READERS, most=READ_ROWS)
        self._kept[where] = (epoch - 1, state)
        return state  # type: ignore[return-value]

    def _rows(self, log: ShardDeltas, entry: Named) -> pa.Table:
        if entry.shard is not None:
            return homes.keep(log.read(entry), log.shard, log.shards)
        epoch, digest, table = self._written.get(_where(log), (-1, "", None))
        if table is not None and entry.first == entry.epoch == epoch and entry.rows.digest == digest:
            return table
        return log.read(entry)


def _where(log: ShardDeltas) -> tuple[str, str, int, int | None]:
    return log.layout.pipeline, log.kind, log.shard, log.shards


def _as_json(column: pa.ChunkedArray) -> Any:
    values = column.to_pylist()
    return {"hex": [value.hex() for value in values]} if column.type == pa.binary() else values


def _of_json(values: Any) -> Any:
    return pa.array(map(bytes.fromhex, values["hex"]), pa.binary()) if isinstance(values, dict) else values


def _corrupt(key: str, how: str) -> ChainError:
    return ChainError(f"a delta is corrupt: {how[:200]}", key, "Restore it from the bucket's versions or a backup.")
