"""Deltas: what one epoch adds to the state of one shard, written once, folded in the order of the chain (R5)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import pyarrow as pa

from effectively_once import digest
from effectively_once.errors import ChainError, SinkError
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import ObjectStore, body_of, create_once, run
from effectively_once.ledger.records import Delta

Canonical = Callable[[pa.Table], Iterable[bytes]]


class State(Protocol):
    """State that is a fold of deltas."""

    def fold(self, delta: pa.Table) -> None:
        """Add one epoch's delta."""
        ...

    def expire(self, watermark_ms: int | None) -> None:
        """Drop what a watermark closes."""
        ...


S = TypeVar("S", bound=State)

INLINE_BYTES = 1024
"""Up to here a delta travels in its epoch's record: an object costs a request, head has room for 64 such records."""

DAMAGE = (pa.ArrowException, OSError, ValueError, KeyError, AttributeError, MemoryError)
"""What decoding damaged bytes comes to: bad metadata, a cut-off body, bad text, a column or a value missing."""


@dataclass(frozen=True, slots=True)
class Named:
    """A delta as the chain names it."""

    epoch: int
    rows: Delta


def encoded(table: pa.Table) -> bytes:
    """Arrow stream of a table."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    body: bytes = sink.getvalue().to_pybytes()
    return body


def decoded(body: bytes) -> pa.Table:
    """Table of an Arrow stream; damaged bytes raise one of DAMAGE."""
    table = pa.ipc.open_stream(body).read_all()
    # Offsets that point out of their buffer would otherwise be followed, and end the process.
    table.validate(full=True)
    return table


@dataclass(frozen=True, slots=True)
class ShardDeltas:
    """The deltas of one kind and shard.

    Attributes:
        canonical: gives the bytes that rows are digested by.
        inline_bytes: up to here a delta travels in the epoch's record.

    """

    store: ObjectStore
    layout: Layout
    kind: str
    shard: int
    canonical: Canonical
    inline_bytes: int = 0

    def write(self, epoch: int, table: pa.Table) -> Delta:
        """Write the delta of an epoch unless it is there, and return what the chain is to record.

        An empty delta is not written at all, a small one is returned inline: a repeat decides it anew from the same
        pinned input and state, and the chain records it with the epoch.

        Raises:
            SinkError: the delta that is there differs: the step before it was not deterministic (R4).

        """
        ours = Delta(rows=table.num_rows, digest=digest.of_rows(self.canonical(table)))
        if not ours.rows:
            return ours
        if table.nbytes <= self.inline_bytes:
            return ours.model_copy(update={"inline": json.dumps(table.to_pydict(), separators=(",", ":"))})
        key = self.layout.delta(self.kind, epoch, self.shard)
        body = encoded(table)
        held = run(create_once(key, body), self.store)
        if held != body:
            _, theirs = self._digested(held, key)
            if theirs != ours.digest:
                raise SinkError(
                    f"a repeat of epoch {epoch} decided otherwise in step {self.kind!r}, shard {self.shard}",
                    key,
                    "The step is not deterministic: record its outside inputs (stable input) before it decides.",
                )
        return ours

    def read(self, named: Named) -> pa.Table:
        """Read a delta that the chain names. Raises ChainError when it is missing or is not what the chain recorded."""
        key = self.layout.delta(self.kind, named.epoch, self.shard)
        if named.rows.inline is not None:
            # Text and whole numbers are all a delta holds, and Arrow infers them as such.
            return pa.table(json.loads(named.rows.inline))
        found = run(body_of(key), self.store)
        if found is None:
            raise ChainError(
                "a delta that the chain names is missing", key, "Restore it from the bucket's versions or a backup."
            )
        table, held = self._digested(found, key)
        if held != named.rows.digest:
            raise _corrupt(key, "its rows are not those the chain names")
        return table

    def _digested(self, body: bytes, key: str) -> tuple[pa.Table, str]:
        try:
            table = decoded(body)
            return table, digest.of_rows(self.canonical(table))
        except DAMAGE as error:
            raise _corrupt(key, str(error)) from error


class Folder:
    """Keeps folded state between tasks of one Python worker.

    What is kept is the fold of recorded epochs only, and deltas are create-once, so it can be behind the chain but
    never wrong; when it is ahead of what a task asks for (a repeat of an older epoch), the task folds anew.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str, int], tuple[int, State]] = {}

    def state(self, log: ShardDeltas, fresh: Callable[[], S], named: list[Named], epoch: int) -> S:
        """State before `epoch`: the fold of the deltas `named`, which are those of epochs >= floor and < `epoch`."""
        where = (log.layout.pipeline, log.kind, log.shard)
        # Taken out while it changes: a fold that fails half-way must not be found again.
        folded, state = self._kept.pop(where, (-1, None))
        if state is None or folded >= epoch:
            folded, state = -1, fresh()
        for delta in named:
            if delta.epoch > folded:
                state.fold(log.read(delta))
        self._kept[where] = (epoch - 1, state)
        return state  # type: ignore[return-value]


def _corrupt(key: str, how: str) -> ChainError:
    return ChainError(f"a delta is corrupt: {how[:200]}", key, "Restore it from the bucket's versions or a backup.")
