"""Deltas: what one epoch adds to the state of one shard, written once, folded in the order of the chain (R5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import pyarrow as pa

from effectively_once import digest
from effectively_once.errors import ChainError, SinkError
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import ObjectStore, body_of, create_once, run
from effectively_once.ledger.records import Rows

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


@dataclass(frozen=True, slots=True)
class Named:
    """A delta as the chain names it."""

    epoch: int
    rows: Rows


def encoded(table: pa.Table) -> bytes:
    """Arrow stream of a table."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue().to_pybytes()


def decoded(body: bytes) -> pa.Table:
    """Table of an Arrow stream."""
    return pa.ipc.open_stream(body).read_all()


def write(
    store: ObjectStore, layout: Layout, kind: str, epoch: int, shard: int, table: pa.Table, canonical: Canonical,
) -> Rows:
    """Write the delta of an epoch unless it is there, and return what holds. An empty delta is not written at all.

    Raises:
        SinkError: the delta that is there differs: the step before it was not deterministic (R4).
    """
    ours = Rows(rows=table.num_rows, digest=digest.of_rows(canonical(table)))
    if not ours.rows:
        return ours
    key = layout.delta(kind, epoch, shard)
    body = encoded(table)
    held = run(create_once(key, body), store)
    if held != body:
        theirs = digest.of_rows(canonical(decoded(held)))
        if theirs != ours.digest:
            raise SinkError(
                f"a repeat of epoch {epoch} decided otherwise in step {kind!r}, shard {shard}",
                key,
                "The step is not deterministic: record its outside inputs (stable input) before it decides.",
            )
    return ours


def read(store: ObjectStore, layout: Layout, kind: str, named: Named, shard: int, canonical: Canonical) -> pa.Table:
    """Read a delta that the chain names. Raises ChainError when it is missing or is not what the chain recorded."""
    key = layout.delta(kind, named.epoch, shard)
    found = run(body_of(key), store)
    if found is None:
        raise ChainError("a delta that the chain names is missing", key, "Restore it from the bucket's versions or a backup.")
    try:
        table = decoded(found)
        intact = digest.of_rows(canonical(table)) == named.rows.digest
    except (pa.ArrowException, KeyError, UnicodeDecodeError):
        intact = False
    if not intact:
        raise ChainError("a delta is corrupt", key, "Restore it from the bucket's versions or a backup.")
    return table


class Folder:
    """Keeps folded state between tasks of one Python worker.

    What is kept is the fold of recorded epochs only, and deltas are create-once, so it can be behind the chain but never
    wrong; when it is ahead of what a task asks for (a repeat of an older epoch), the task folds anew.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str, int], tuple[int, State]] = {}

    def state(
        self, fresh: Callable[[], S], store: ObjectStore, layout: Layout, kind: str, shard: int,
        named: list[Named], epoch: int, canonical: Canonical,
    ) -> S:
        """State before `epoch`: the fold of the deltas `named`, which are those of epochs >= floor and < `epoch`."""
        where = (layout.pipeline, kind, shard)
        # Taken out while it changes: a fold that fails half-way must not be found again.
        folded, state = self._kept.pop(where, (-1, None))
        if state is None or folded >= epoch:
            folded, state = -1, fresh()
        for delta in named:
            if delta.epoch > folded:
                state.fold(read(store, layout, kind, delta, shard, canonical))
        self._kept[where] = (epoch - 1, state)
        return state  # type: ignore[return-value]

