"""What every row of a declared pipeline's sinks must be, read off its declaration as a person does.

Of the library's objects only what their author wrote is asked; what follows from it is said here a second time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from effectively_once import Pipeline, ToFiles, ToKafka, Windowed
from effectively_once.pipeline.sinks import Destination
from tests.harness.schemas import SinkSchema, Type

_TYPES: Mapping[pa.DataType, Type] = {
    pa.string(): "text",
    pa.binary(): "hex",
    pa.int32(): "integer",
    pa.int64(): "integer",
    pa.bool_(): "boolean",
    # JSON has no number that is none.
    pa.float64(): "number or null",
}
_TEXT: Type = "text"
"""Of dates and times."""
_SOURCE: Mapping[str, Type] = {"topic": "text", "partition": "integer", "offset": "integer"}
_EPOCH: Mapping[str, Type] = {"epoch": "integer"}


def schemas_of(pipeline: Pipeline) -> dict[str, SinkSchema]:
    """Schemas of its sinks of rows and windows, by name; `columns` of one whose rows are no JSON are none."""
    return dict(_schemas(pipeline))


def _schemas(pipeline: Pipeline) -> Iterator[tuple[str, SinkSchema]]:
    rows = {**_SOURCE, **_columns_of_rows(pipeline)}
    shard_by = ("id",) if pipeline.ids == "attached" else ("source",)
    for to in pipeline.rows:
        yield to.name, _schema(to, rows, shard_by, ("source",))
    for each in pipeline.windows:
        totals = {"window_start_ms": "integer", **dict.fromkeys(each.values, "integer")}
        yield each.to.name, _schema(each.to, {each.by: "text", **totals}, (each.by,), ("window_start_ms", each.by))
        if each.totals is not None:
            yield each.totals.name, _schema(each.totals, totals, (), ())


def _columns_of_rows(pipeline: Pipeline) -> dict[str, Type]:
    """Columns of an accepted row, those of a recorded step last; nobody demands most of them."""
    timed = pipeline.ids == "attached" or pipeline.windows
    demanded = {name for each in pipeline.windows for name in _used(each)}
    columns: dict[str, Type] = {"id": "text"} if pipeline.ids == "attached" else {}
    columns |= {"event_time_ms": "integer"} if timed else {}
    columns |= {one.name: _type(one, one.name not in demanded) for one in pipeline.columns}
    columns |= {one.name: _type(one, one.nullable) for one in (pipeline.recorded.adds if pipeline.recorded else ())}
    return columns


def _used(each: Windowed) -> Iterator[str]:
    """Columns that windows cannot do without: a record that lacks one is refused."""
    yield each.by
    yield from (value.column for value in each.values.values() if value.column)


def _type(column: pa.Field, nullable: bool) -> Type:
    found = _TYPES.get(column.type, _TEXT)
    return f"{found} or null" if nullable and not found.endswith(" or null") else found


def _schema(
    to: Destination, columns: Mapping[str, Type], shard_by: tuple[str, ...], order: tuple[str, ...]
) -> SinkSchema:
    from_input = order == ("source",)
    if not isinstance(to, ToKafka):
        fields = {name: columns[name] for name in to.columns or columns}
        files = isinstance(to, ToFiles)
        return SinkSchema(kind="files" if files else "table", fields={**fields, **(_EPOCH if files else {})})
    # A message names its source in one field, unless its author asks for the columns too.
    names = to.columns or [name for name in columns if not (from_input and name in _SOURCE)]
    fields = {**{name: columns[name] for name in names}, **_EPOCH, **({"source": "source"} if from_input else {})}
    return SinkSchema(
        kind="kafka",
        fields=fields,
        key=to.key,
        shard_by=shard_by,
        order=order,
        key_type="hex" if to.key and columns[to.key].startswith("hex") else "text",
    )
