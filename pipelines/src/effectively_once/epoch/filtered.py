"""Records that a transform leaves out on purpose: counted by declared reason, and shown nowhere.

The transform decides it of the record alone, so every repeat decides alike, and nothing is stored: no id, no time, no
row. A mark that is not declared leaves nothing out: its record is refused.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from effectively_once.pipeline.columns import FILTERED
from effectively_once.pipeline.pipeline import Pipeline

(MARK,) = FILTERED.names
UNDECLARED = "undeclared_filter"
"""How the reason begins of a record whose mark is none of the declared ones; the mark follows."""
_SHOWN_CHARACTERS = 100
"""Of such a mark."""


def mark(pipeline: Pipeline) -> Column:
    """Return why a row is left out; null of every other one. What its author refuses is refused, whatever its mark."""
    return f.when(f.col("reason").isNull() & f.col(MARK).isin(*pipeline.filtered), f.col(MARK))


def reason(pipeline: Pipeline, refused: Column) -> Column:
    """Return why a row is not accepted: as its author refuses it, or for its mark; null where it has neither.

    Args:
        pipeline: the declaration.
        refused: the author's reason.

    """
    shown = f.left(f.make_valid_utf8(MARK), f.lit(_SHOWN_CHARACTERS))
    unknown = f.when(~f.col(MARK).isin(*pipeline.filtered), f.concat(f.lit(f"{UNDECLARED} '"), shown, f.lit("'")))
    # Whatever reads rows without a reason never sees one that is left out.
    return f.coalesce(refused, unknown, f.when(mark(pipeline).isNotNull(), MARK))


def strip(pipeline: Pipeline, rows: DataFrame) -> DataFrame:
    """Take from the rows that are left out all but their coordinates, mark and reason: nobody reads the rest."""
    kept = (*pipeline.coordinates.names, MARK, "reason")
    stays = f.col(MARK).isNull()
    return rows.select(*(name if name in kept else f.when(stays, f.col(name)).alias(name) for name in rows.columns))


def split(whole: pa.Table) -> tuple[pa.Table, dict[str, int]]:
    """Return the refused rows of a shard, and how many are left out for which reason."""
    refused = whole.filter(pc.is_valid(whole["reason"]))
    if MARK not in whole.column_names:
        return refused, {}
    counted = pc.value_counts(pc.drop_null(refused[MARK]))
    marks = zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True)
    return refused.filter(pc.is_null(refused[MARK])), dict(sorted(marks))
