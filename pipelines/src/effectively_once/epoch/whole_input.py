"""Proof that a shard holds all rows of its input (R13), before it decides anything.

A Python worker cannot tell the end of its input from the end of its task: when the JVM side of the task fails, as over
a shuffle block that cannot be fetched, the stream just ends, in good order. So every task of the stage before closes
what it has for each shard with a row that tells how many rows those are (`ClosedInput.java`). How many tasks there are
is the plan's own number, which Spark gives to each of them: it stands in every closing row.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from effectively_once.errors import InputError
from effectively_once.ledger.hashes import mix
from effectively_once.pipeline.columns import POSITION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from effectively_once.pipeline.pipeline import Pipeline

CLOSING = "closing"
"""Column of rows on their way to a shard; null but in closing rows, where all others but the shard are null."""
CLOSED_INPUT = "org.effectivelyonce.input.ClosedInput"
_MASK = (1 << 64) - 1


class Closing(NamedTuple):
    """What one task had for a shard: its number, out of how many, rows, and their digest."""

    task: int
    tasks: int
    rows: int
    digest: str


def bring_together(frame: DataFrame, shard: str, shards: int, digested: Sequence[str]) -> DataFrame:
    """Bring the rows of each shard together, with the closing rows of all tasks.

    Args:
        frame: the rows.
        shard: column of theirs, an int that is never null.
        shards: how many there are.
        digested: columns of theirs, int or long, that the digest is made of.

    """
    spark = frame.sparkSession
    rows = frame.selectExpr("*", f"CAST(NULL AS STRING) AS {CLOSING}")
    # PySpark has no way to a node of a plan but its gateway. By its whole name: asked for a package, the JVM looks for
    # classes of that name in all jars.
    closed = getattr(spark._jvm, CLOSED_INPUT).of(rows._jdf, shards, shard, list(digested))
    return type(frame)(closed, spark).repartitionById(shards, shard)


def require(
    batches: Iterable[pa.RecordBatch], digested: Sequence[str], where: str, *, nothing: bool = False
) -> list[pa.RecordBatch]:
    """Read the input of a shard to its end, and return its rows. For arguments and errors see `proven`."""
    return list(proven(batches, digested, where, nothing=nothing))


def proven(
    batches: Iterable[pa.RecordBatch], digested: Sequence[str], where: str, *, nothing: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a shard as they come. Only who has come to the end may act on them: there is the proof.

    Args:
        batches: as Spark hands them to the task.
        digested: as in `bring_together`.
        where: epoch, step and shard, for messages.
        nothing: whether the epoch covers no record: then there is no task before this one.

    Raises:
        InputError: at the end: rows or closing rows are missing, or there are too many.

    """
    found: list[Closing] = []
    number = hashes = 0
    came = False
    for batch in batches:
        came = True
        rows = batch.filter(pc.is_null(batch[CLOSING])).drop_columns([CLOSING])
        found += [Closing(**json.loads(told)) for told in pc.drop_null(batch[CLOSING]).to_pylist()]
        if rows.num_rows:
            number += rows.num_rows
            hashes = (hashes + digest_of(rows, digested)) & _MASK
            yield rows
    if not came and nothing:
        return
    wrong = _difference(sorted(found), number, hashes)
    if wrong:
        raise InputError(
            f"the input of a shard is not whole: {wrong}",
            where,
            "Nothing was decided or published, and the task is repeated. If no repeat helps, keep the executors' logs.",
        )


def _difference(found: Sequence[Closing], rows: int, hashes: int) -> str | None:
    """Say what rows, of this number and digest, and closing rows do not agree in; None when they do."""
    if not found:
        return f"no closing row came, and {rows} rows"
    tasks = found[0].tasks
    if [told.task for told in found] != list(range(tasks)) or any(told.tasks != tasks for told in found):
        return f"closing rows came of tasks {[told.task for told in found]} out of {tasks}"
    wanted = sum(told.rows for told in found)
    if rows != wanted:
        return f"{rows} rows came, and its {tasks} tasks closed {wanted}"
    if hashes != sum(int(told.digest, 16) for told in found) & _MASK:
        return f"{wanted} rows came as closed, and they are others: their digest differs"
    return None


def count_records(pipeline: Pipeline, rows: pa.Table | pa.RecordBatch) -> int:
    """Return how many records are among rows: where one may have several, those whose first row is."""
    if pipeline.explode is None:
        return int(rows.num_rows)
    return int(pc.sum(pc.equal(rows[POSITION.names[0]], 0)).as_py() or 0)


def digest_of(rows: pa.Table | pa.RecordBatch, digested: Sequence[str]) -> int:
    """Hashes of the rows, added up, so that no order counts; `ClosingRows.java` makes the same."""
    hashes = np.zeros(rows.num_rows, np.uint64)
    for name in digested:
        values: Any = pc.fill_null(rows[name], 0).cast(pa.int64())
        hashes = mix(hashes + values.to_numpy().astype(np.uint64))
    return int(hashes.sum(dtype=np.uint64))
