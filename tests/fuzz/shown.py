"""What each kind of sink makes of its rows, read again by something else than what wrote it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
from psycopg import pq
from psycopg.adapt import PyFormat, Transformer

from effectively_once.epoch.message_bytes import BATCH_BYTES, LETTER_BYTES
from effectively_once.pipeline.sinks import ToKafka
from effectively_once.sinks.database import DatabaseAddress
from effectively_once.sinks.kafka_shard import Row as Message
from effectively_once.sinks.postgres import TableAddress, TableSink
from effectively_once.sinks.tables import TableShape
from tests.fuzz.rows import Row

_1970, _DAY_1970 = datetime(1970, 1, 1, tzinfo=UTC), date(1970, 1, 1).toordinal()
_INDEX_ROW_BYTES = 2_704
"""The most that a row of PostgreSQL's B-tree may have, with its header of 8."""


def plain(value: Any) -> Any:
    """Return a value as the rows of these tests have it: dates and times are whole numbers."""
    if isinstance(value, datetime):
        return (value - _1970) // timedelta(microseconds=1)
    return value.toordinal() - _DAY_1970 if isinstance(value, date) else value


def of_messages(to: ToKafka, schema: pa.Schema, content: Sequence[Message]) -> list[Row]:
    """Read the JSON messages of a sink; `source` becomes its three columns."""
    found = []
    for key, body in content:
        assert len(key or b"") + len(body) + BATCH_BYTES <= to.message_bytes_max, "the topic does not take it"
        line = json.loads(body)
        row = {name: _from_json(schema.field(name).type, line[name]) for name in line if name in schema.names}
        if "source" in line:
            row |= dict(zip(("topic", "partition", "offset"), line["source"], strict=True))
        assert key == (None if to.key is None else _raw(row[to.key])), "the key is that of another row"
        found.append(row)
    return found


def _raw(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _from_json(kind: pa.DataType, value: Any) -> Any:
    if value is None:
        return None
    if kind == pa.binary():
        return bytes.fromhex(value)
    if pa.types.is_decimal(kind):
        return Decimal(value)
    if kind == pa.date32():
        return plain(date.fromisoformat(value))
    return plain(datetime.fromisoformat(value)) if pa.types.is_timestamp(kind) else value


def of_letters(content: Sequence[Message]) -> list[dict[str, Any]]:
    """Read dead letters."""
    assert all(len(body) <= LETTER_BYTES for _, body in content), "the topic does not take it"
    return [json.loads(body) for _, body in content]


def of_table(shape: TableShape, table: pa.Table) -> list[Row]:
    """Write the rows of a shard as `COPY ... (FORMAT BINARY)` does and read them, as a server would keep them."""
    address = TableAddress(DatabaseAddress("postgresql://nowhere:1/none"), "fuzz", "table", 0)
    described = TableSink(address, shape)._describe(table)
    assert described.rows == table.num_rows
    types = psycopg.adapters.types
    kinds = [types.get_oid(name) for name in shape.copy_types]
    writer, reader = Transformer(), Transformer()
    writer.set_dumper_types(kinds, pq.Format.BINARY)
    reader.set_loader_types(kinds, pq.Format.BINARY)
    found = []
    for row in table.to_pylist():
        sent = writer.dump_sequence(list(row.values()), [PyFormat.BINARY] * len(row))
        _refuse_as_a_server(shape, row, dict(zip(row, sent, strict=True)))
        found.append({name: plain(value) for name, value in zip(row, reader.load_sequence(sent), strict=True)})
    return found


def _refuse_as_a_server(shape: TableShape, row: Mapping[str, Any], sent: Mapping[str, Any]) -> None:
    """Assert what PostgreSQL asks of texts and of keys."""
    texts = [value for value in row.values() if isinstance(value, str)]
    assert not any("\0" in text for text in texts), "no text of a table has a zero byte"
    size = 8
    for name in shape.key:
        assert row[name] is not None, f"{name} is of the key, and null"
        # Of a text its length comes before it; whatever follows begins at a multiple of eight, at worst.
        long = isinstance(row[name], str | bytes)
        size += -(-(len(bytes(sent[name])) + 4 * long) // 8) * 8
    assert size <= _INDEX_ROW_BYTES, f"a key of {size} bytes is longer than an index takes"
