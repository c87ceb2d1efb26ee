"""What can be wrong with a declaration, found before anything runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from effectively_once.aggregates import Count
from effectively_once.columns import ATTACHED, COORDINATES, DEAD_LETTER, REFUSED, TIME
from effectively_once.destinations import Destination, ToKafka, ToTable
from effectively_once.sinks.tables import COLUMN_TYPES
from effectively_once.windowed import WINDOW_START, Windowed

if TYPE_CHECKING:
    from effectively_once.pipeline import Pipeline

_OURS = {*COORDINATES.names, *ATTACHED.names, *TIME.names, *REFUSED.names, "shard", "epoch", "source", WINDOW_START}
_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")
_KEPT_FOR_US = {DEAD_LETTER, "ids", "deltas", "segments", "checkpoints", "recorded"}


def mistakes(pipeline: Pipeline) -> Iterator[str]:
    """Say what is wrong with a declaration, in the order in which it reads."""
    added = pipeline.recorded.adds if pipeline.recorded else pa.schema([])
    columns = [*pipeline.columns, *added]
    yield from (f"column {column.name!r} is the library's own" for column in columns if column.name in _OURS)
    yield from (f"column {name!r} is there twice" for name in added.names if name in pipeline.columns.names)
    yield from (
        f"column {column.name!r} is of type {column.type}; possible are {', '.join(map(str, COLUMN_TYPES))}"
        for column in columns
        if column.type not in COLUMN_TYPES
    )
    if pipeline.ahead_ms is not None and (pipeline.ahead_ms < 0 or not pipeline.timed):
        yield "ahead_ms is a number of milliseconds from 0 on, of rows that have an event time"
    sinks = [*pipeline.rows, *(each.to for each in pipeline.windows)]
    sinks += [each.totals for each in pipeline.windows if each.totals is not None]
    names = [to.name for to in sinks]
    names += [pipeline.recorded.name] if pipeline.recorded else []
    for name in names:
        if not _NAME.fullmatch(name) or name in _KEPT_FOR_US:
            taken = ", ".join(sorted(_KEPT_FOR_US))
            yield f"a sink or step cannot be called {name!r}: small letters, digits and _ are possible, and not {taken}"
        if names.count(name) > 1:
            yield f"two sinks or steps are called {name!r}"
    for each in pipeline.windows:
        yield from _wrong_window(each, pipeline.given)
    for to, schema in pipeline.destinations.values():
        yield from _wrong_sink(to, schema)
    for to in pipeline.rows:
        if isinstance(to, ToTable) and to.key and to.key[0] != "id":
            yield f"sink {to.name!r} replaces rows by {to.key[0]!r}, and rows of one {to.key[0]} are in several shards"


def _wrong_window(each: Windowed, columns: pa.Schema) -> Iterator[str]:
    whole = {column.name for column in columns if pa.types.is_int64(column.type) or pa.types.is_int32(column.type)}
    texts = {column.name for column in columns if pa.types.is_string(column.type)}
    if each.by not in texts:
        yield f"windows {each.name!r} are by {each.by!r}, which is no column of text"
    if not each.values:
        yield f"windows {each.name!r} have no values"
    for name, value in each.values.items():
        if name in (each.by, WINDOW_START, "epoch") or not _NAME.fullmatch(name):
            yield f"a value of windows {each.name!r} cannot be called {name!r}"
        if not isinstance(value, Count) and value.column not in whole:
            yield f"value {name!r} of windows {each.name!r} is of {value.column!r}, which is no column of whole numbers"
    if isinstance(each.to, ToTable) and each.to.key and each.to.key[0] != each.by:
        yield f"sink {each.to.name!r} replaces rows by {each.to.key[0]!r}: the key has to begin with {each.by!r}"


def _wrong_sink(to: Destination, schema: pa.Schema) -> Iterator[str]:
    wanted = [*to.columns]
    if isinstance(to, ToKafka):
        wanted += [name for name in (to.key, to.value) if name]
        for name in (to.key, to.value):
            if name in schema.names and schema.field(name).type not in (pa.string(), pa.binary()):
                yield f"sink {to.name!r}: key and value are text or binary, {name!r} is {schema.field(name).type}"
    elif isinstance(to, ToTable):
        wanted += [name for name in to.key if to.columns and name not in to.columns] + [*to.key]
    missing = [name for name in wanted if name not in schema.names]
    yield from (f"sink {to.name!r} asks for {name!r}, which is not there" for name in missing)
