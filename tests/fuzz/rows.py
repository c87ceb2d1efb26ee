"""What a record becomes before the steps of an epoch, in plain Python: the row of it, and why it is refused."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from effectively_once import Pipeline
from effectively_once.epoch.message_bytes import LONG, SHORT, of_records
from effectively_once.epoch.publishable import YEARS_DAYS, YEARS_US, limits
from effectively_once.epoch.rows import STATEFUL_TIMES_MS, TIME_MAX_MS, missing_reason
from effectively_once.pipeline.columns import COORDINATES
from tests.fuzz.reading import read

FIELDS = {
    "id": "string",
    "event_time_ms": "long",
    "user": "string",
    "text": "string",
    "n": "long",
    "m": "int",
    "level": "double",
    "flag": "boolean",
    "days": "int",
    "at_us": "long",
}
"""Of a record."""
COLUMNS = pa.schema(
    [
        ("user", pa.string()),
        ("text", pa.string()),
        ("n", pa.int64()),
        ("m", pa.int32()),
        ("level", pa.float64()),
        ("flag", pa.bool_()),
        ("raw", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("cents", pa.decimal128(38, 2)),
    ]
)
"""Every type that a column can have. `raw` is the MD5 of `text`, `day` and `at` are `days` and `at_us` as dates, and
`cents` is a hundredth of `n`.
"""
_YEARS = {pa.date32(): YEARS_DAYS, pa.timestamp("us", "UTC"): YEARS_US}
Row = dict[str, Any]
"""Values of columns; dates and times are whole numbers since 1970, of days and microseconds."""


def row_of(pipeline: Pipeline, value: bytes | None, timestamp_ms: int | None) -> Row:
    """Return the columns of a pipeline's input, but for coordinates, and `reason`."""
    reason, fields = read(value, FIELDS)
    text = fields["text"]
    raw = None if text is None else hashlib.md5(text.encode(), usedforsecurity=False).digest()
    cents = None if fields["n"] is None else Decimal(fields["n"]).scaleb(-2)
    known = {**fields, "raw": raw, "day": fields["days"], "at": fields["at_us"], "cents": cents}
    row = {name: known.get(name) for name in pipeline.input.names if name not in COORDINATES.names}
    row["reason"] = reason or next(_reasons(pipeline, row, timestamp_ms), None)
    return row


def _reasons(pipeline: Pipeline, row: Row, timestamp_ms: int | None) -> Iterator[str]:
    first_ms, last_ms = STATEFUL_TIMES_MS if pipeline.stateful else (-TIME_MAX_MS, TIME_MAX_MS)
    for name in pipeline.required:
        value = row.get(name, "")
        ends = name == "event_time_ms" and value is not None and not first_ms <= value <= last_ms
        if value is None or ends or (name == "id" and not value):
            yield missing_reason(name)
    bounds = limits(pipeline)
    for column in pipeline.input:
        value, bound = row.get(column.name), bounds[column.name]
        if value is None:
            continue
        if column.type in _YEARS and not _YEARS[column.type][0] <= value <= _YEARS[column.type][1]:
            yield f"bad_{column.name}"
        if isinstance(value, float) and not math.isfinite(value):
            yield f"bad_{column.name}"
        if isinstance(value, str) and not bound.zero_bytes and "\0" in value:
            yield f"bad_{column.name}"
        if bound.key_bytes is not None and len(_bytes(value)) > bound.key_bytes:
            yield f"long_{column.name}"
    for part in of_records(pipeline):
        size = sum(_as_json(row[name]) for name in part.json) + sum(len(_bytes(row[name])) for name in part.raw)
        if size > part.room:
            yield part.reason
    time_ms, ahead_ms = row.get("event_time_ms"), pipeline.ahead_ms
    if ahead_ms is not None and time_ms is not None and timestamp_ms is not None and time_ms > timestamp_ms + ahead_ms:
        yield "ahead"


def _bytes(value: str | bytes | None) -> bytes:
    return value.encode() if isinstance(value, str) else value or b""


def _as_json(value: str | bytes | None) -> int:
    if not isinstance(value, str):
        return 2 * len(value or b"")
    return len(value.encode()) + sum(one in SHORT for one in value) + 5 * sum(one in LONG for one in value)


def column_of(kind: pa.DataType, values: list[Any]) -> pa.Array:
    """Return values of a column as Arrow holds them, those too that Python has no date for."""
    whole = {pa.date32(): pa.int32(), pa.timestamp("us", "UTC"): pa.int64()}
    return pa.array(values, whole.get(kind, kind)).cast(kind)


def table_of(schema: pa.Schema, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return rows as a table; what a row does not have is null."""
    columns = [column_of(column.type, [row.get(column.name) for row in rows]) for column in schema]
    return pa.table(columns, schema=schema)
