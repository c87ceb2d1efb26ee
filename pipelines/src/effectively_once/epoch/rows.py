"""The library's part of a data frame: what a transform gave is checked, judged and cut to what is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import BinaryType, DataType, StringType, StructType, TimestampType

from effectively_once.epoch import attached, chance, exploded, filtered, whole_input
from effectively_once.epoch.message_bytes import LONG, SHORT, of_records
from effectively_once.epoch.plan import each, plan_of
from effectively_once.epoch.publishable import YEARS_US, limits
from effectively_once.errors import SettingsError
from effectively_once.pipeline.columns import REFUSED, SENT, of_shards
from effectively_once.pipeline.definition import Transform
from effectively_once.pipeline.pipeline import Pipeline
from effectively_once.state.lateness import Windows

TO_SHARD = "to_shard"
"""Column of rows between the steps: who gets them."""
KAFKA = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int"
"""Columns of the frame that a transform is given."""
TIME_MAX_MS = 10**15 - 1
"""Event times beyond (the year 33658) are refused: sums with windows and lateness stay far from 64 bits."""
_YEARS = {
    pa.date32(): ("date'0001-01-01'", "date'9999-12-31'"),
    pa.timestamp("us", "UTC"): tuple(f"timestamp_micros({bound})" for bound in YEARS_US),
}
"""Of `publishable`, as Spark writes them."""
STATEFUL_TIMES_MS = (1, 253_370_764_799_999)
"""Event times of a stateful query: Spark's watermark begins at 1970, and its windows are to end before year 10000."""

_NOT_BY_RECORD = frozenset(
    {
        "Aggregate",
        "Deduplicate",
        "Except",
        "Filter",
        "Generate",
        "GlobalLimit",
        "Intersect",
        "LocalLimit",
        "Offset",
        "Sample",
        "Sort",
        "Union",
        "Window",
    }
)
"""Operators of a plan that lose or double records, or depend on which others are in the epoch."""


def check(pipeline: Pipeline, spark: SparkSession) -> None:
    """Try each transform on no rows.

    Raises:
        SettingsError: it fails, gives other columns than were declared, is no function of one record, or would answer
            otherwise in a repeat.

    """
    nothing = spark.createDataFrame([], KAFKA)
    for transform in pipeline.transforms.values():
        _check(pipeline, transform, nothing)


def _check(pipeline: Pipeline, transform: Transform, nothing: DataFrame) -> None:
    try:
        frame = _in_ms(transform(nothing))
        given = _attach(pipeline, frame, nothing)
    except Exception as error:
        raise SettingsError(
            f"the transform fails on no rows: {type(error).__name__}: {str(error).strip().partition(chr(10))[0][:300]}",
            where(transform),
            "Correct it.",
        ) from error
    if beyond := _NOT_BY_RECORD.intersection(_operators(frame, nothing)):
        raise SettingsError(
            f"the transform is no function of one record: its plan has {', '.join(sorted(beyond))}",
            where(transform),
            "Let it give one row for each record, whatever others come with it. One that is to be left out gets a "
            "declared reason in the column filtered (Pipeline(filtered=...)), one that is wrong a reason. Several rows "
            "of a record are an array (Pipeline(explode=...)).",
        )
    # Spark repeats the batch of a stateful query by itself, at the time that the batch has.
    chance.refuse(frame, "the transform", where(transform), clocks=pipeline.stateful is None)
    chance.warn(frame, pipeline.deterministic_udfs, where(transform))
    wrong = [*exploded.find_mistakes(pipeline, given.schema)]
    wrong = wrong or [*_find_mistakes(pipeline, _explode(pipeline, given).schema)]
    if wrong:
        raise SettingsError(
            f"the transform gives other columns than declared: {'; '.join(wrong)}",
            where(transform),
            "Let it give the declared columns and reason. Behind a function on batches of rows (mapInArrow), or an "
            "outer join that adds rows, let it keep topic, partition, offset, value (with ahead_ms also timestamp).",
        )


def _find_mistakes(pipeline: Pipeline, given: StructType) -> Iterator[str]:
    """Say in what the columns of a row are others than declared."""
    found = {field.name: field.dataType for field in given}
    names = [field.name.lower() for field in given]
    theirs = {column.name.lower() for column in pipeline.columns}
    if not pipeline.filtered and filtered.MARK in {*names} - theirs:
        # Taken for nothing, it would publish what is to be left out.
        yield "filtered is there, and Pipeline(filtered=...) declares no reason"
    for column in [*pipeline.judged, *REFUSED, *(SENT if pipeline.ahead_ms is not None else ())]:
        if column.name not in found:
            yield f"{column.name} is missing"
        elif names.count(column.name.lower()) > 1:
            yield f"{column.name} is there twice"
        elif column.name == "id" and isinstance(found["id"], BinaryType):
            continue
        elif _arrow(found[column.name]) != column.type:
            yield f"{column.name} is {found[column.name].simpleString()} and must be {column.type}"


def _attach(pipeline: Pipeline, given: DataFrame, source: DataFrame) -> DataFrame:
    sent = SENT.names if pipeline.ahead_ms is not None else ()
    return attached.attach(given, source, ("value", *sent))


def _in_ms(given: DataFrame) -> DataFrame:
    """Add `event_time_ms` where a transform gives the time as a timestamp, `event_time`."""
    kinds = {field.name: field.dataType for field in given.schema}
    if "event_time_ms" in kinds or not isinstance(kinds.get("event_time"), TimestampType):
        return given
    return given.withColumn("event_time_ms", f.unix_millis("event_time"))


def _operators(frame: DataFrame, source: DataFrame) -> Iterator[str]:
    """Names of the operators between a frame and what it was made of; not those of other frames that it joins."""

    def way(plan: Any, leaf: Any) -> list[str] | None:
        if plan.equals(leaf):
            return []
        below = (way(child, leaf) for child in each(plan.children()))
        return next(([plan.nodeName(), *names] for names in below if names is not None), None)

    yield from way(plan_of(frame), plan_of(source)) or []


def judge(pipeline: Pipeline, frame: DataFrame) -> DataFrame:
    """Transform Kafka rows and give each that cannot be accepted its reason; only whether it is late is left open.

    Returns:
        `pipeline.judged`, reason (null: it may be accepted), value.

    """
    return judge_each(pipeline, lambda topic: frame if topic is None else frame.where(f.col("topic") == topic))


def judge_each(pipeline: Pipeline, read: Callable[[str | None], DataFrame]) -> DataFrame:
    """Do what `judge` does, where each transform has rows of its own to read: those of its topic; of None all.

    Two transforms of one stream would be two streams to Spark, each of all topics, with offsets of its own.
    """
    parts = [_judge(pipeline, transform, read(topic)) for topic, transform in pipeline.transforms.items()]
    return reduce(DataFrame.unionByName, parts)


def _judge(pipeline: Pipeline, transform: Transform, frame: DataFrame) -> DataFrame:
    given = _explode(pipeline, _attach(pipeline, _in_ms(transform(frame)), frame))
    # A reason may quote what is no text.
    reason = f.make_valid_utf8("reason")
    if pipeline.filtered:
        reason = filtered.reason(pipeline, reason)
    reason = f.coalesce(reason, *_lacking(pipeline, given.columns))
    for why, unfit in unfits(pipeline, given):
        reason = f.coalesce(reason, f.when(unfit, why))
    if (large := larges(pipeline, given)) is not None:
        reason = f.coalesce(reason, large)
    if pipeline.ahead_ms is not None:
        ahead = f.col("event_time_ms") > f.unix_millis("timestamp") + pipeline.ahead_ms
        reason = f.coalesce(reason, f.when(ahead, "ahead"))
    places = pipeline.coordinates.names
    names = [*places, *(name for name in pipeline.input.names if name not in places)]
    marks = [filtered.mark(pipeline).alias(filtered.MARK)] if pipeline.filtered else []
    rows = given.select(*names, *marks, reason.alias("reason"), "value")
    if pipeline.filtered:
        rows = filtered.strip(pipeline, rows)
    if pipeline.ids == "attached":
        # The chain's deltas, and dead letters, hold text.
        text = isinstance(rows.schema["id"].dataType, StringType)
        rows = rows.withColumn("id", f.when(f.is_valid_utf8("id"), f.col("id")) if text else f.lower(f.hex("id")))
    return rows


def _explode(pipeline: Pipeline, given: DataFrame) -> DataFrame:
    """Make the rows of each record. What its own columns lack is told of the record once, and not of each row."""
    if pipeline.explode is None:
        return given
    return _in_ms(exploded.explode(pipeline, given, f.coalesce(*_lacking(pipeline, given.columns))))


def _lacking(pipeline: Pipeline, given: Sequence[str]) -> Iterator[Column]:
    """Say why a row is refused that lacks some column, for each of these columns that may not be null."""
    for name in pipeline.required:
        if name not in given:
            continue
        wrong = f.col(name).isNull()
        if name == "id":
            wrong |= f.length(name) == 0
        if name == "event_time_ms":
            wrong |= ~f.col(name).between(*(STATEFUL_TIMES_MS if pipeline.stateful else (-TIME_MAX_MS, TIME_MAX_MS)))
        yield f.when(wrong, missing_reason(name))


def timely(
    pipeline: Pipeline, judged: DataFrame, windows: Windows, watermark_ms: int | None, *, values: bool = False
) -> DataFrame:
    """Say of judged rows which are late, before any state (R6).

    It is made anew for every epoch, so it is written in SQL: calls for each column took longer than Spark's planning.

    Args:
        pipeline: the declaration.
        judged: its rows.
        windows: those of the pipeline.
        watermark_ms: that of the epoch.
        values: whether each row keeps its value, as a table may refuse it yet.

    Returns:
        the columns of `judge`; value is null unless there is a reason, or `values`.

    """
    reason = "reason"
    if pipeline.timed and watermark_ms is not None:
        reason = f"coalesce(reason, CASE WHEN {late('event_time_ms', windows, watermark_ms)} THEN 'late' END)"
    kept = [f"`{name}`" for name in judged.columns if name not in REFUSED.names]
    value = "value" if values else f"CASE WHEN ({reason}) IS NOT NULL THEN value END AS value"
    return judged.selectExpr(*kept, f"{reason} AS reason", value)


def missing_reason(name: str) -> str:
    """Why a row without some column is refused."""
    return "bad_time" if name == "event_time_ms" else f"missing_{name}"


def unfits(pipeline: Pipeline, given: DataFrame) -> Iterator[tuple[str, Column]]:
    """Why a row is refused of which some sink could not hold a value (`publishable`), and which rows are.

    Spark's texts may be any bytes, and its dates are not bounded as Python's are.
    """
    bounds = limits(pipeline)
    texts = {column.name for column in given.schema if isinstance(column.dataType, StringType)} - {"topic"}
    for column in pipeline.input:
        name, value, bound = column.name, f.col(column.name), bounds[column.name]
        if column.type in _YEARS:
            yield f"bad_{name}", ~value.between(*map(f.expr, _YEARS[column.type]))
        elif column.type == pa.float64():
            yield f"bad_{name}", f.isnan(value) | (f.abs(value) == float("inf"))
        elif name in texts:
            yield f"bad_{name}", ~f.is_valid_utf8(value)
            if not bound.zero_bytes:
                yield f"bad_{name}", f.contains(value, f.lit("\0"))
        if bound.key_bytes is not None:
            # An id of bytes goes on as twice as many hexadecimal digits.
            as_it_comes = name in texts or column.type == pa.binary()
            yield f"long_{name}", f.octet_length(value) > bound.key_bytes // (1 if as_it_comes else 2)


def larges(pipeline: Pipeline, given: DataFrame) -> Column | None:
    """Why a row is refused of which some Kafka sink's message would be too large (`message_bytes`); None where none is.

    Lengths alone tell it of nearly all rows: what takes six times its bytes and fits is not looked at.
    """
    parts = of_records(pipeline)
    if not parts:
        return None
    kinds = {column.name: column.dataType for column in given.schema}

    def hexadecimal(name: str) -> bool:
        return name == "id" and isinstance(kinds[name], BinaryType)

    def length(name: str) -> Column:
        return f.coalesce(f.octet_length(name).cast("long"), f.lit(0)) * (2 if hexadecimal(name) else 1)

    def number(name: str, of: str) -> Column:
        return f.coalesce((f.octet_length(name) - f.octet_length(f.translate(name, of, ""))).cast("long"), f.lit(0))

    def as_json(name: str) -> Column:
        if not isinstance(kinds[name], StringType):
            return length(name) * (1 if hexadecimal(name) else 2)
        return length(name) + number(name, SHORT) + 5 * number(name, LONG)

    most = {name: max(part.most[name] for part in parts) for part in parts for name in part.most}
    why = f.lit(None).cast("string")
    for part in reversed(parts):
        size = sum((*map(as_json, part.json), *map(length, part.raw)), f.lit(0))
        why = f.when(size > part.room, part.reason).otherwise(why)
    suspect = sum((length(name) * times for name, times in most.items()), f.lit(0))
    return f.when(suspect > min(part.room for part in parts), why)


def _arrow(kind: DataType) -> pa.DataType | None:
    try:
        return to_arrow_type(kind, timezone="UTC")
    except PySparkTypeError:
        return None


def late(time_ms: str, windows: Windows, watermark_ms: int) -> str:
    """Write in SQL: window end + allowed lateness <= watermark. The same rule, in plain Python, is `Windows.closed`."""
    ends = f"{time_ms} - pmod({time_ms}, {windows.length_ms}) + {windows.length_ms + windows.lateness_ms}"
    # As a decimal, which generated code takes as a parameter. A number would be written into it, and every epoch would
    # have its code compiled anew.
    return f"CAST({ends} AS DECIMAL(18, 0)) <= CAST('{watermark_ms}' AS DECIMAL(18, 0))"


def with_shard(pipeline: Pipeline, rows: DataFrame, shards: int) -> DataFrame:
    """Give every row its shard, by id or else by coordinate (R4)."""
    key = "concat_ws('-', topic, partition, offset)"
    if pipeline.ids == "attached":
        key = f"coalesce(id, {key})"
    return rows.selectExpr("*", f"{shard_of(key, shards)} AS shard")


def in_shards(pipeline: Pipeline, rows: DataFrame, shards: int) -> DataFrame:
    """Give every row its shard, and bring the rows of a shard together, with proof that they are all (R13)."""
    return whole_input.bring_together(with_shard(pipeline, rows, shards), "shard", shards, pipeline.digested)


def by_key(rows: DataFrame, key: str, shards: int) -> DataFrame:
    """Bring rows of one key together, with proof that they are all (R13); rows without one have a shard too."""
    placed = rows.selectExpr("*", f"coalesce({shard_of(key, shards)}, 0) AS {TO_SHARD}")
    return whole_input.bring_together(placed, TO_SHARD, shards, ())


def shard_of(key: str, shards: int) -> str:
    """Write in SQL: shard = hash(key) mod P."""
    return f"CAST(pmod(xxhash64({key}), {shards}) AS INT)"


def empty(pipeline: Pipeline) -> pa.Table:
    """Return the rows of a shard that has none."""
    return of_shards(pipeline.judged).empty_table()


def where(function: Callable[..., Any]) -> str:
    """Name a function of the author's, as errors tell where."""
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', repr(function))}"
