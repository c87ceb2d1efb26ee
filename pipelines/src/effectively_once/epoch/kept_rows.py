"""What the first step of a stateful pipeline has to show, kept until the results of the epoch are there (R7, R8).

The author's operators stand between the two steps. What they raise, and what they give, is known only when all of them
have run: before that no sink may show a row. Rows cannot come to the last step by way of the operators, which are
the author's. So they are an object of each shard and epoch, made once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from effectively_once.epoch import recorded, sealed_stream
from effectively_once.errors import ChainError
from effectively_once.ledger.objects import body_of, run
from effectively_once.pipeline.columns import ATTACHED, COORDINATES, REFUSED
from effectively_once.state import deltas

if TYPE_CHECKING:
    from effectively_once.epoch.shard_step import ShardStep

STEP = "_rows"
"""In the place of a recorded step's name, none of which begins so."""
_OF_LETTERS = (*COORDINATES.names, *ATTACHED.names, *REFUSED.names)
"""What a dead letter has of its record."""


def keep(step: ShardStep, accepted: pa.Table, dead: pa.Table) -> pa.Table:
    """Keep the rows of a shard unless another attempt has, and return the accepted ones that are kept.

    So the author's operators are given what sinks will show, whichever attempt they run in.

    Args:
        step: the first one of a shard.
        accepted: rows as sinks see them.
        dead: those with a reason, with their value.

    Raises:
        ChainError: what is kept is damaged.

    """
    schema = pa.schema([column.with_nullable(True) for column in [*accepted.schema, *REFUSED]])
    table = pa.concat_tables([_fill(accepted, [*accepted.column_names], schema), _fill(dead, _OF_LETTERS, schema)])

    def make() -> bytes:
        step.confirm()
        return sealed_stream.seal(table)

    key = _key(step)
    body, another = run(recorded.read_or_make(key, make), step.store)
    step.repeated |= another
    step.lap("rows_kept")
    step.announce("rows_kept")
    return pa.table(_split(step, body, key)[0].columns, schema=accepted.schema)


def read(step: ShardStep) -> tuple[pa.Table, pa.Table]:
    """Return what a shard has to show: the accepted rows, and those with a reason.

    Raises:
        ChainError: it is missing or damaged.

    """
    key = _key(step)
    found = _split(step, run(body_of(key), step.store) or b"", key)
    step.lap("rows_read")
    return found


def _split(step: ShardStep, body: bytes, key: str) -> tuple[pa.Table, pa.Table]:
    try:
        table = sealed_stream.open_sealed(body)
        accepted = pc.is_null(table["reason"])
        names = step.task.pipeline.input.names
        return table.filter(accepted).select(names), table.filter(pc.invert(accepted))
    except deltas.DAMAGE as error:
        raise ChainError(
            f"the rows that an epoch is to show are missing or damaged: {str(error)[:200]}",
            key,
            "Start the pipeline again: where the object is gone the repeat makes it anew. One that is damaged, restore "
            "from the bucket's versions. Do not delete it: its rows may be visible.",
        ) from error


def _fill(rows: pa.Table, names: Sequence[str], schema: pa.Schema) -> pa.Table:
    """Return some columns of rows, and nulls for others: a text of a refused record may be no text."""
    columns = [rows[each.name] if each.name in names else pa.nulls(rows.num_rows, each.type) for each in schema]
    return pa.table(columns, schema=schema)


def _key(step: ShardStep) -> str:
    pinned = step.task.declaration
    return step.task.layout.step_record(STEP, pinned.epoch, step.shard, pinned.decides)
