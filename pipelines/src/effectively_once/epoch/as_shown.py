"""The input of an epoch that is finished as it was shown, and of the one that repairs it (R10).

A shard that showed too little of an epoch, or decided on too little, takes just the rows that it showed: then deciding
and publishing come to what is visible, and whatever does not is refused as in any repeat. The next epoch takes the rest
of the same ranges. So both together take every row once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from effectively_once import long_texts
from effectively_once.errors import ChainError, SinkError
from effectively_once.ledger import digest
from effectively_once.ledger.as_shown import AsShown
from effectively_once.ledger.delta import Delta
from effectively_once.ledger.objects import ObjectStore, body_of, create_once, run
from effectively_once.pipeline.columns import COORDINATES
from effectively_once.state import catalog, deltas

if TYPE_CHECKING:
    # The command that repairs writes what steps read, and runs where there is no Spark.
    from effectively_once.epoch.shard_step import ShardStep

RESTORE = "Restore chain and sinks from one backup, or give the pipeline another name to publish everything anew."


def input_of(step: ShardStep, whole: pa.Table) -> pa.Table:
    """Return the rows of a shard that its epoch takes: all of them, unless an operator had it repaired.

    Args:
        step: the first one of an epoch.
        whole: rows of the shard, as `rows.judge` gives them, in source order.

    Of an epoch that takes the rest of a divided one, `division` leaves out what is before that rest.

    Raises:
        SinkError: the shard shows rows that are not there.
        ChainError: what is pinned is missing or damaged, or names rows that are not there.

    """
    pinned = step.task.declaration
    if not pinned.shown:
        return whole
    shown, repairs = pinned.shown.get(str(step.shard)), pinned.repairs is not None
    if shown is None:
        # It had shown nothing: it took all that there is, or the first part of it.
        return whole if not repairs or str(step.shard) in pinned.after else whole.slice(0, 0)
    taken = _find_taken(step, whole, shown, pinned.epoch if pinned.repairs is None else pinned.repairs)
    return whole.filter(pa.array(~taken if repairs else taken))


def rows_of(step: ShardStep, whole: pa.Table, epoch: int, delta: Delta) -> NDArray[np.int64]:
    """Find the rows that a shard accepted in an epoch by its delta: of each id the first one that was in time.

    Raises:
        ChainError: not all of them are there.

    """
    log = deltas.ShardDeltas(step.store, step.task.layout, catalog.KIND, step.shard, catalog.canonical)
    names = (
        log.read(deltas.Named(epoch, delta, step.task.declaration.decides))["id"]
        if delta.rows
        else pa.chunked_array([], pa.string())
    )
    names = long_texts.whole(names)
    mine = pc.and_(pc.is_null(whole["reason"]), pc.is_in(whole["id"].cast(names.type), value_set=names))
    at = np.flatnonzero(mine.to_numpy())
    # Numbered in the order in which they come: the first of each is in source order too.
    encoded = long_texts.whole(whole["id"].filter(mine)).dictionary_encode()
    _, first = np.unique(encoded.indices.to_numpy(zero_copy_only=False), return_index=True)
    if len(first) != delta.rows:
        raise ChainError(
            f"epoch {epoch} accepted {delta.rows} rows in shard {step.shard}, and {len(first)} are found again",
            "input topic",
            "Restore the records of the epoch, or the pipeline from a backup.",
        )
    found: NDArray[np.int64] = at[first]
    return found


def write(store: ObjectStore, key: str, coordinates: pa.Table, ids: Delta | None) -> AsShown:
    """Write where the rows that a shard shows were read; return what a declaration pins of it."""
    found = AsShown(rows=coordinates.num_rows, digest=digest.of_rows_in(coordinates), ids=ids)
    if not found.rows:
        return found
    body = deltas.encode(coordinates)
    run(create_once(key, body), store)
    return found.model_copy(update={"key": key, "bytes": len(body)})


def read(store: ObjectStore, shown: AsShown) -> pa.Table:
    """Read where the rows that a shard shows were read.

    Raises:
        ChainError: the object is missing or damaged.

    """
    if shown.key is None:
        return COORDINATES.empty_table()
    body = run(body_of(shown.key), store)
    try:
        if body is None:
            raise ValueError("it is missing")
        table = deltas.decode(body).cast(COORDINATES)
        if (table.num_rows, digest.of_rows_in(table, shown.digest)) != (shown.rows, shown.digest):
            raise ValueError("its rows are not those that were pinned")
    except deltas.DAMAGE as wrong:
        raise ChainError(
            f"what a shard shows of an epoch cannot be read: {str(wrong)[:200]}",
            shown.key,
            "Run `effectively-once repair` again.",
        ) from wrong
    return table


def places(rows: pa.Table, coordinates: Sequence[str] = COORDINATES.names) -> pa.Array:
    """Return source coordinates as one text a row."""
    columns = [rows[name].cast(pa.string()) for name in coordinates]
    joined = pc.binary_join_element_wise(*columns, "/")
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined


def _find_taken(step: ShardStep, whole: pa.Table, shown: AsShown, epoch: int) -> NDArray[np.bool_]:
    known = places(read(step.store, shown))
    taken: NDArray[np.bool_] = pc.is_in(places(whole), value_set=known).to_numpy(zero_copy_only=False)
    missing = shown.rows - int(np.count_nonzero(taken))
    if missing:
        raise SinkError(
            f"shard {step.shard} shows {missing} rows of epoch {epoch} that its input does not give",
            f"shard {step.shard}",
            f"Something else is visible, and has to be taken back. {RESTORE}",
        )
    if shown.ids is not None:
        taken = taken.copy()
        taken[rows_of(step, whole, epoch, shown.ids)] = True
    return taken
