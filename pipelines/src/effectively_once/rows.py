"""The library's part of a data frame: what a transform gave is checked, judged and cut to what is needed."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import BinaryType, DataType, StringType

from effectively_once.columns import COORDINATES, REFUSED, SENT
from effectively_once.destinations import ToTable
from effectively_once.errors import SettingsError
from effectively_once.pipeline import Pipeline
from effectively_once.windows import Windows

KAFKA = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int"
"""Columns of the frame that a transform is given."""
TIME_MAX_MS = 10**15 - 1
"""Event times beyond (the year 33658) are refused: sums with windows and lateness stay far from 64 bits."""
_YEARS = {
    pa.date32(): ("date'0001-01-01'", "date'9999-12-31'"),
    pa.timestamp("us", "UTC"): ("timestamp_micros(-62135596800000000)", "timestamp_micros(253402300799999999)"),
}
"""What Python has dates for: Spark knows more."""


def check(pipeline: Pipeline, spark: SparkSession) -> None:
    """Try the transform on no rows.

    Raises:
        SettingsError: it fails, or gives other columns than were declared.

    """
    try:
        given = pipeline.transform(spark.createDataFrame([], KAFKA)).schema
    except Exception as error:
        raise SettingsError(
            f"the transform fails on no rows: {type(error).__name__}: {str(error).strip().partition(chr(10))[0][:300]}",
            _where(pipeline), "Correct it.",
        ) from error  # fmt: skip
    found = {field.name: field.dataType for field in given}
    names = [field.name.lower() for field in given]
    wrong = []
    for column in [*pipeline.input, *REFUSED, *(SENT if pipeline.ahead_ms is not None else ())]:
        if column.name not in found:
            wrong.append(f"{column.name} is missing")
        elif names.count(column.name.lower()) > 1:
            wrong.append(f"{column.name} is there twice")
        elif column.name == "id" and isinstance(found["id"], BinaryType):
            continue
        elif _arrow(found[column.name]) != column.type:
            wrong.append(f"{column.name} is {found[column.name].simpleString()} and must be {column.type}")
    if wrong:
        raise SettingsError(
            f"the transform gives other columns than declared: {'; '.join(wrong)}", _where(pipeline),
            "Let it keep topic, partition, offset, value (with ahead_ms also timestamp), and add the declared columns "
            "and reason.",
        )  # fmt: skip


def judged(pipeline: Pipeline, frame: DataFrame, windows: Windows, watermark_ms: int | None) -> DataFrame:
    """Transform Kafka rows and give each that is not to be accepted its reason, before any state (R6).

    Returns:
        `pipeline.input`, reason (null: accepted unless it is a copy), value (null unless there is a reason).

    """
    given = pipeline.transform(frame)
    reason = f.col("reason")
    for name in pipeline.required:
        wrong = f.col(name).isNull()
        if name == "event_time_ms":
            wrong |= ~f.col(name).between(-TIME_MAX_MS, TIME_MAX_MS)
        reason = f.coalesce(reason, f.when(wrong, missing(name)))
    for name, unfit in unfits(pipeline, given):
        reason = f.coalesce(reason, f.when(unfit, f"bad_{name}"))
    if pipeline.ahead_ms is not None:
        ahead = f.col("event_time_ms") > f.unix_millis("timestamp") + pipeline.ahead_ms
        reason = f.coalesce(reason, f.when(ahead, "ahead"))
    if pipeline.timed:
        reason = f.coalesce(reason, f.when(late(f.col("event_time_ms"), windows, watermark_ms), "late"))
    names = [*COORDINATES.names, *(name for name in pipeline.input.names if name not in COORDINATES.names)]
    rows = given.select(*names, reason.alias("reason"), "value")
    if pipeline.ids == "attached" and not isinstance(rows.schema["id"].dataType, StringType):
        # The chain's deltas hold text.
        rows = rows.withColumn("id", f.lower(f.hex("id")))
    return rows.withColumn("value", f.when(f.col("reason").isNotNull(), f.col("value")))


def missing(name: str) -> str:
    """Why a row without some column is refused."""
    return "bad_time" if name == "event_time_ms" else f"missing_{name}"


def unfits(pipeline: Pipeline, given: DataFrame) -> Iterator[tuple[str, Column]]:
    """Which values no sink could hold: an epoch with one could never be published, whoever repeats it.

    Spark's texts may be any bytes, its dates are not bounded as Python's are, and PostgreSQL has no text with a zero.
    """
    in_tables = {name for to in pipeline.rows if isinstance(to, ToTable) for name in to.columns or pipeline.input.names}
    in_tables |= {each.by for each in pipeline.windows if isinstance(each.to, ToTable)}
    texts = {column.name for column in given.schema if isinstance(column.dataType, StringType)} - {"topic"}
    for column in pipeline.input:
        name, value = column.name, f.col(column.name)
        if column.type in _YEARS:
            yield name, ~value.between(*map(f.expr, _YEARS[column.type]))
        elif name in texts:
            yield name, ~f.is_valid_utf8(value)
            if name in in_tables:
                yield name, f.contains(value, f.lit("\0"))


def _arrow(kind: DataType) -> pa.DataType | None:
    try:
        return to_arrow_type(kind, timezone="UTC")
    except PySparkTypeError:
        return None


def late(time_ms: Column, windows: Windows, watermark_ms: int | None) -> Column:
    """Window end + allowed lateness <= watermark. The same rule, in plain Python, is `Windows.closed`."""
    if watermark_ms is None:
        return f.lit(False)
    ends = time_ms - f.pmod(time_ms, f.lit(windows.length_ms)) + windows.length_ms + windows.lateness_ms
    # As an interval, which generated code takes as a parameter. A number would be written into it, and every epoch
    # would have its code compiled anew.
    watermark = f.make_interval(secs=f.lit(Decimal(watermark_ms).scaleb(-3)))
    return f.timestamp_millis(ends) - watermark <= f.timestamp_millis(f.lit(0))


def in_shards(pipeline: Pipeline, rows: DataFrame, shards: int) -> DataFrame:
    """Give every row its shard, by id or else by coordinate, and bring the rows of a shard together (R4)."""
    coordinate = f.concat_ws("-", "topic", "partition", "offset")
    key = f.coalesce("id", coordinate) if pipeline.ids == "attached" else coordinate
    return rows.withColumn("shard", shard_of(key, shards)).repartitionById(shards, f.col("shard"))


def shard_of(key: Column, shards: int) -> Column:
    """Shard = hash(key) mod P."""
    return f.pmod(f.xxhash64(key), f.lit(shards)).cast("int")


def empty(pipeline: Pipeline) -> pa.Table:
    """Return the rows of a shard that has none."""
    return pa.schema([*pipeline.input, *REFUSED, ("shard", pa.int32())]).empty_table()


def _where(pipeline: Pipeline) -> str:
    function = pipeline.transform
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', repr(function))}"
