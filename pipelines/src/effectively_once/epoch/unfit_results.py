"""Results of a stateful query that no sink could hold: dead letters, known before the epoch's first sink shows a row.

They are judged by the rules for what a recorded step answers (`publishable`, `message_bytes`), where all of them are
there and nothing is visible. So no result can stop the pipeline, and no two sinks show another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from effectively_once.epoch import message_bytes, publishable, too_large
from effectively_once.epoch.message_bytes import LETTER_BYTES
from effectively_once.pipeline.sinks import AnySink, ToTable
from effectively_once.state import ordered
from effectively_once.state.accumulator import BAD_RESULT

if TYPE_CHECKING:
    from effectively_once.epoch.shard_step import ShardStep
    from effectively_once.pipeline.pipeline import Pipeline
    from effectively_once.pipeline.stateful import Stateful
    from effectively_once.sinks.kafka_shard import Row

WHY = "bad_result"
"""Field of a dead letter's value: what is wrong with the result."""


def split(pipeline: Pipeline, stateful: Stateful, results: pa.Table) -> tuple[pa.Table, list[dict[str, str | None]]]:
    """Return the results that every sink could hold, and the others: what is wrong with each, and its values as text.

    Args:
        pipeline: the declaration.
        stateful: its query.
        results: all of one shard, columns as declared; whichever of them may be null.

    """
    why: dict[int, str] = {}

    def refuse(found: Iterable[tuple[int, str]]) -> pa.Table:
        """Note what is wrong with rows of those that are left; return what is left then."""
        numbers = [at for at in range(results.num_rows) if at not in why] if why else range(results.num_rows)
        for at, what in found:
            why.setdefault(numbers[at], what)
        if not why:
            return results
        return results.filter(pa.array([at not in why for at in range(results.num_rows)], pa.bool_()))

    bounds = publishable.limits_of(stateful.to, stateful.schema)
    sound = refuse(_rows(chain(_broken(results), _nulls(stateful, results), publishable.unfit(results, bounds))))
    sound = refuse(_large(pipeline, stateful, sound))
    # Last: of two results with one key, one that no sink could hold leaves the key to the other.
    sound = refuse(_twice(stateful.to, sound))
    return sound, [{WHY: what, **_as_text(results.slice(at, 1))} for at, what in why.items()]


def letters(step: ShardStep, stateful: Stateful, unfit: list[dict[str, str | None]]) -> Iterator[Row]:
    """Return the dead letters of a shard's unfit results.

    They are in the order of their content: a repeat may get results in another one, and has to come to the same.
    """
    source = f"{step.task.settings.pipeline}.{stateful.name}", step.shard
    for number, value in enumerate(sorted(unfit, key=orjson.dumps)):
        body = orjson.dumps(too_large.line(step, (*source, number), BAD_RESULT, value))
        if len(body) > LETTER_BYTES:
            most = max(1, too_large.SHORT_CHARACTERS // len(value))
            short = {name: text and text[:most] for name, text in value.items()}
            body = orjson.dumps(too_large.line(step, (*source, number), BAD_RESULT, short))
        yield None, body


def _rows(found: Iterable[tuple[str, pa.ChunkedArray]]) -> Iterator[tuple[int, str]]:
    for what, where in found:
        for at in pc.indices_nonzero(where).to_pylist():
            yield at, what


def _large(pipeline: Pipeline, stateful: Stateful, results: pa.Table) -> Iterator[tuple[int, str]]:
    for message in message_bytes.messages_of(pipeline):
        if message.sink == stateful.name:
            for at in message_bytes.larger(message, results):
                yield at, f"its texts take more than the {message.room} bytes that a message has for them"


def _twice(to: AnySink, results: pa.Table) -> Iterator[tuple[int, str]]:
    """Find results that replace each other within an epoch: a table takes neither, and which is the newer nobody says.

    Results that are nothing but key replace nothing.
    """
    if not isinstance(to, ToTable) or not to.key or set(to.columns or results.column_names) <= {*to.key}:
        return
    counted = results.select(to.key).append_column("at", pa.array(range(results.num_rows), pa.int64()))
    for places in counted.group_by([*to.key]).aggregate([("at", "list")])["at_list"].to_pylist():
        if len(places) > 1:
            for at in places:
                yield at, f"its key ({', '.join(to.key)}) is that of another result of this epoch"


def _broken(results: pa.Table) -> Iterator[tuple[str, pa.Array]]:
    """Find texts that are no UTF-8: Spark's may be any bytes, and Arrow takes its word."""
    for field, column in zip(results.schema, results.columns, strict=True):
        if not pa.types.is_string(field.type):
            continue
        raw = column.cast(pa.binary())
        try:
            raw.cast(pa.string())
        except pa.ArrowInvalid:
            yield f"{field.name} is no UTF-8", pa.array([not _is_text(value) for value in raw.to_pylist()], pa.bool_())


def _nulls(stateful: Stateful, results: pa.Table) -> Iterator[tuple[str, pa.ChunkedArray]]:
    for column in stateful.schema:
        if not column.nullable:
            yield f"{column.name} is null, and declared NOT NULL", pc.is_null(results[column.name])


def _is_text(value: bytes | None) -> bool:
    try:
        return value is None or value.decode() is not None
    except UnicodeDecodeError:
        return False


def _as_text(row: pa.Table) -> dict[str, str | None]:
    return {name: _text(column[0]) for name, column in zip(row.column_names, row.columns, strict=True)}


def _text(value: pa.Scalar) -> str | None:
    """Write a value that may be what Python has none of."""
    if not value.is_valid:
        return None
    if pa.types.is_string(value.type):
        return value.cast(pa.binary()).as_py().decode(errors="replace")  # type: ignore[no-any-return]
    try:
        told: Any = ordered.as_json(value.as_py())
    except (ValueError, OverflowError):
        # A date: days, or microseconds, since 1970.
        told = value.value
    return str(told).lower() if isinstance(told, bool) else str(told)
