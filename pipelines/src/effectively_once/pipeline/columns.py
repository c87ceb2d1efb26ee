"""The library's own columns of a row, and the sink that every pipeline has."""

from __future__ import annotations

import pyarrow as pa

COORDINATES = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])
ATTACHED = pa.schema([("id", pa.string())])
TIME = pa.schema([("event_time_ms", pa.int64())])
REFUSED = pa.schema([("reason", pa.string()), ("value", pa.binary())])
FILTERED = pa.schema([("filtered", pa.string())])
"""Of a pipeline that declares why records are left out: the reason of each that is, null of every other."""
POSITION = pa.schema([("pos", pa.int32())])
"""Of a pipeline whose records have several rows: the place of each among those of its record, from 0."""
SENT = pa.schema([("timestamp", pa.timestamp("us", "UTC"))])
DEAD_LETTER = "dead_letter"
REFUSED_BY_TABLE = "refused_by_table"
"""How the reason begins of a record that a table's constraints refuse; sink and constraint follow."""
RESULT_REFUSED = "result_refused_by_table"
"""The same of a window's result."""


def of_shards(columns: pa.Schema) -> pa.Schema:
    """Columns of the rows of a shard: those of the input, what a refused one has besides, and the shard."""
    return pa.schema([*columns, *REFUSED, ("shard", pa.int32())])
