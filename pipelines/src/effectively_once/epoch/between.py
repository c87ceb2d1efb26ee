"""What goes from the first step of an epoch to the second, and from that to the driver: aggregates and summaries."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from effectively_once.pipeline.pipeline import Pipeline
from effectively_once.pipeline.windows import Windowed
from effectively_once.state import windows


def columns(pipeline: Pipeline) -> pa.Schema:
    """Columns between the steps.

    `partial` and `total` rows carry the aggregates of the windows `of`: whole numbers `v0`, `v1`, ... and bytes `c0`,
    `c1`, ...; `shard` rows carry a step's summary as JSON.
    """
    slots: dict[str, pa.DataType] = {}
    for each in pipeline.windows:
        slots |= _slots(pipeline, each)
    return pa.schema(
        [
            ("kind", pa.string()),
            ("shard", pa.int32()),
            ("of", pa.string()),
            (windows.KEY, pa.string()),
            (windows.START, pa.int64()),
            # Those of numbers first.
            *sorted(slots.items(), key=lambda slot: (slot[0][0] != "v", int(slot[0][1:]))),
            ("note", pa.string()),
        ]
    )


def ddl(pipeline: Pipeline) -> str:
    """Return the same columns as Spark writes them."""
    names = {pa.string(): "string", pa.int32(): "int", pa.int64(): "long", pa.binary(): "binary"}
    return ", ".join(f"{column.name} {names[column.type]}" for column in columns(pipeline))


def carry(pipeline: Pipeline, kind: str, each: Windowed, aggregates: pa.Table) -> Iterator[pa.RecordBatch]:
    """Aggregates (columns of a delta) as rows between the steps."""
    schema, number = columns(pipeline), aggregates.num_rows
    known = {
        "kind": pa.repeat(kind, number),
        "of": pa.repeat(each.name, number),
        windows.KEY: aggregates[windows.KEY],
        windows.START: aggregates[windows.START],
    }
    known |= dict(zip(_slots(pipeline, each), aggregates.columns[2:], strict=True))
    values = [known.get(column.name, pa.nulls(number, column.type)) for column in schema]
    yield from pa.table(values, schema=schema).to_batches()


def take(pipeline: Pipeline, each: Windowed, carried: pa.Table) -> pa.Table:
    """Rows between the steps as aggregates."""
    kept = windows.schema(pipeline.accumulators(each))
    return carried.select([*windows.GROUP, *_slots(pipeline, each)]).rename_columns(kept.names)


def _slots(pipeline: Pipeline, each: Windowed) -> dict[str, pa.DataType]:
    """Columns between the steps that carry what is kept of its values, in order."""
    slots: dict[str, pa.DataType] = {}
    for column in [*windows.schema(pipeline.accumulators(each))][len(windows.GROUP) :]:
        of = "c" if column.type == pa.binary() else "v"
        slots[f"{of}{sum(name[0] == of for name in slots)}"] = column.type
    return slots


def report(pipeline: Pipeline, summary: dict[str, object]) -> Iterator[pa.RecordBatch]:
    """A step's summary as a row between the steps."""
    yield from pa.Table.from_pylist([summary], columns(pipeline)).to_batches()
