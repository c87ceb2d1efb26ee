"""Which values a sink cannot hold: an epoch with one could never be published, whoever repeats it.

One rule for all sinks. What a transform gives is judged by Spark (`rows`), and becomes a dead letter. Judged here are
the answers of a recorded step, before they are recorded, and the results of a stateful query (`unfit_results`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from effectively_once.pipeline.sinks import AnySink, ToTable

if TYPE_CHECKING:
    from effectively_once.pipeline.pipeline import Pipeline

YEARS_US = (-62_135_596_800_000_000, 253_402_300_799_999_999)
"""Times of the years 1 to 9999, in microseconds since 1970: what Python has dates for. Spark knows more."""
YEARS_DAYS = (-719_162, 2_932_896)
"""The same in days."""
_ROW_BYTES, _ROW_HEAD_BYTES, _COLUMN_BYTES = 2_704, 8, 16
"""Of a row of PostgreSQL's B-trees: the most it may have, its header, and what a column takes beside its text."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the sinks of a column do not take.

    Attributes:
        zero_bytes: whether its texts may hold a zero byte, which those of PostgreSQL cannot.
        key_bytes: how many bytes its texts may have, in UTF-8, as some table's key; None where it is of no key.
        nulls: whether it may be null, which no part of a table's key is.

    """

    zero_bytes: bool = True
    key_bytes: int | None = None
    nulls: bool = True


def limits(pipeline: Pipeline) -> dict[str, Limits]:
    """Return the limits of every column of accepted rows, those of the recorded step among them."""
    in_tables: set[str] = set()
    in_keys: set[str] = set()
    bytes_: dict[str, int] = {}
    for to, schema in pipeline.sinks.values():
        if not isinstance(to, ToTable):
            continue
        in_tables.update(to.columns or schema.names)
        in_keys.update(to.key)
        for name, bound in _key_bytes(to, schema).items():
            bytes_[name] = min(bound, bytes_.get(name, bound))
    for each in pipeline.windows:
        if isinstance(each.to, ToTable):
            values = pipeline.accumulators(each)
            # What is collected is JSON, which has no zero byte.
            shown = [name for name in values if name in (each.to.columns or values) and values[name].texts == 1]
            in_tables.update(column for name in shown for column in each.values[name].columns)
    if pipeline.stateful is not None and isinstance(pipeline.stateful.to, ToTable):
        # Whatever its operators make of them may come to the table.
        in_tables.update(pipeline.input.names)
    return {
        name: Limits(name not in in_tables, bytes_.get(name), name not in in_keys) for name in pipeline.row_schema.names
    }


def limits_of(to: AnySink, schema: pa.Schema) -> dict[str, Limits]:
    """Return the limits of every column of one sink's rows."""
    if not isinstance(to, ToTable):
        return dict.fromkeys(schema.names, Limits(True, None, True))
    shown, bytes_ = to.columns or schema.names, _key_bytes(to, schema)
    return {name: Limits(name not in shown, bytes_.get(name), name not in to.key) for name in schema.names}


def _key_bytes(to: ToTable, schema: pa.Schema) -> dict[str, int]:
    texts = [name for name in to.key if _long(schema.field(name).type)]
    room = _ROW_BYTES - _ROW_HEAD_BYTES - _COLUMN_BYTES * len(to.key)
    return {name: room // len(texts) for name in texts}


def faults(table: pa.Table, bounds: dict[str, Limits]) -> Iterator[str]:
    """Say of each column which of its values no sink could hold, and in how many rows."""
    for what, where in unfit(table, bounds):
        if number := pc.sum(where).as_py():
            yield f"{what} in {number} rows"


def unfit(table: pa.Table, bounds: dict[str, Limits]) -> Iterator[tuple[str, pa.ChunkedArray]]:
    """Say of each column which of its values no sink could hold, and in which rows."""
    for field, column in zip(table.schema, table.columns, strict=True):
        for what, where in _unfit(field.type, column, bounds.get(field.name, Limits())):
            yield f"{field.name} {what}", where


def _unfit(kind: pa.DataType, column: pa.ChunkedArray, bound: Limits) -> Iterator[tuple[str, pa.ChunkedArray]]:
    if pa.types.is_floating(kind):
        yield "is not a finite number", pc.invert(pc.is_finite(column))
    elif pa.types.is_date32(kind):
        yield "is beyond the years 1 to 9999", _beyond(column.cast(pa.int32()), YEARS_DAYS)
    elif pa.types.is_timestamp(kind):
        yield "is beyond the years 1 to 9999", _beyond(column.cast(pa.int64()), YEARS_US)
    elif pa.types.is_string(kind) and not bound.zero_bytes:
        yield "has a zero byte, which no table takes,", pc.match_substring(column, "\0")
    if not bound.nulls:
        yield "is null, which no part of a table's key is,", pc.is_null(column)
    if bound.key_bytes is not None:
        yield (
            f"is longer than {bound.key_bytes} bytes, which a table's key may have,",
            pc.greater(pc.binary_length(column), bound.key_bytes),
        )


def _beyond(numbers: pa.ChunkedArray, years: tuple[int, int]) -> pa.ChunkedArray:
    return pc.or_(pc.less(numbers, years[0]), pc.greater(numbers, years[1]))


def _long(kind: pa.DataType) -> bool:
    return kind in (pa.string(), pa.binary())
