"""What every row of a declared pipeline's sinks must be, read off its declaration as a person does.

Of the library's objects only what their author wrote is asked; what follows from it is said here a second time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from effectively_once import (
    Collect,
    Count,
    CountDistinct,
    OwnAggregate,
    Pipeline,
    ToFiles,
    ToIceberg,
    ToKafka,
    Windowed,
)
from effectively_once.pipeline.sinks import AnySink
from tests.harness.checkers.aggregated import WHOLE, Value
from tests.harness.schemas import OWN_DEAD_LETTERS, SinkSchema, Type

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
    rows = {**_SOURCE, **_place(pipeline), **_columns_of_rows(pipeline)}
    shard_by = ("id",) if pipeline.ids == "attached" else ("source",)
    for to in pipeline.rows:
        yield to.name, _in_order(pipeline, _schema(to, rows, shard_by, ("source",)))
    for each in pipeline.windows:
        values = values_of(pipeline, each)
        results = {"window_start_ms": "integer", **{name: value.shown for name, value in values.items()}}
        keys = {name: _type(pipeline.row_schema.field(name), nullable=False) for name in keys_of(each)}
        text = [*keys.values()] == ["text"] and pipeline.row_schema.field(next(iter(keys))).type == pa.string()
        order = ("window_start_ms", *keys) if text else ("window_start_ms",)
        found = _schema(each.to, {**keys, **results}, tuple(keys) if text else (), order)
        if not text and found.kind == "kafka":
            found = found.model_copy(update={"keyed": tuple((name, type_name(pipeline, name)) for name in keys)})
        yield each.to.name, found
        if each.totals is not None:
            # Null is what no sink takes.
            nulls = {name for name, value in values.items() if value.how in ("sum", "distinct", "own") and value.column}
            totals = {name: f"{kind} or null" if name in nulls else kind for name, kind in results.items()}
            yield each.totals.name, _schema(each.totals, totals, (), ())


def letters_of(pipeline: Pipeline) -> SinkSchema:
    """Schema of its dead letters. Where a record has several rows each tells of which it is; a result is of none."""
    fields = {**OWN_DEAD_LETTERS.fields, **{name: f"{kind} or null" for name, kind in _place(pipeline).items()}}
    return _in_order(pipeline, OWN_DEAD_LETTERS.model_copy(update={"fields": fields}))


def _place(pipeline: Pipeline) -> dict[str, Type]:
    return {} if pipeline.explode is None else {"pos": "integer"}


def _in_order(pipeline: Pipeline, found: SinkSchema) -> SinkSchema:
    """Rows of one record ascend by their place, where they show it."""
    places = tuple(name for name in _place(pipeline) if found.order and name in found.fields)
    return found.model_copy(update={"order": (*found.order, *places)}) if places else found


def _columns_of_rows(pipeline: Pipeline) -> dict[str, Type]:
    """Columns of an accepted row, those of a recorded step last; nobody demands most of them."""
    timed = pipeline.ids == "attached" or pipeline.windows
    demanded = {name for each in pipeline.windows for name in _used(each)}
    columns: dict[str, Type] = {"id": "text"} if pipeline.ids == "attached" else {}
    columns |= {"event_time_ms": "integer"} if timed else {}
    columns |= {one.name: _type(one, one.nullable and one.name not in demanded) for one in pipeline.columns}
    columns |= {one.name: _type(one, one.nullable) for one in (pipeline.recorded.adds if pipeline.recorded else ())}
    return columns


def _used(each: Windowed) -> Iterator[str]:
    """Columns that windows cannot do without: a record that lacks one is refused."""
    yield from keys_of(each)
    yield from (name for value in each.values.values() for name in value.columns)


def keys_of(each: Windowed) -> tuple[str, ...]:
    """Columns of a key."""
    return (each.by,) if isinstance(each.by, str) else tuple(each.by)


def values_of(pipeline: Pipeline, each: Windowed) -> dict[str, Value]:
    """What each value of windows is, as the judge recomputes it; of one that it cannot, only its type is right."""
    found = {}
    for name, value in each.values.items():
        how = type(value).__name__.lower()
        if isinstance(value, OwnAggregate):
            found[name] = Value("own", value.columns[0], _type_name(value.result))
        elif isinstance(value, Count):
            found[name] = Value("sum")
        else:
            most = value.most if isinstance(value, Collect | CountDistinct) else 0
            how = "distinct" if how == "countdistinct" else how
            found[name] = Value(how, value.column, type_name(pipeline, value.column), most)
    return found


def type_name(pipeline: Pipeline, column: str) -> str:
    """Arrow's name of a column's type, as runs are recorded with it."""
    return _type_name(pipeline.row_schema.field(column).type)


def _type_name(kind: pa.DataType) -> str:
    return WHOLE if kind == pa.int32() else str(kind)


def _type(column: pa.Field, nullable: bool) -> Type:
    found = _TYPES.get(column.type, _TEXT)
    return f"{found} or null" if nullable and not found.endswith(" or null") else found


def _schema(to: AnySink, columns: Mapping[str, Type], shard_by: tuple[str, ...], order: tuple[str, ...]) -> SinkSchema:
    from_input = order == ("source",)
    if not isinstance(to, ToKafka):
        fields = {name: columns[name] for name in to.columns or columns}
        if isinstance(to, ToFiles):
            return SinkSchema(kind="files", fields={**fields, **_EPOCH})
        return SinkSchema(kind="lake" if isinstance(to, ToIceberg) else "table", fields=fields)
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
