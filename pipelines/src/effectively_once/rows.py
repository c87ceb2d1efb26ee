"""The library's part of a data frame: what a transform gave is checked, judged and cut to what is needed."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import BinaryType, StringType

from effectively_once.columns import COORDINATES, REFUSED, SENT
from effectively_once.errors import SettingsError
from effectively_once.pipeline import Pipeline
from effectively_once.windows import Windows

KAFKA = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int"
"""Columns of the frame that a transform is given."""
TIME_MAX_MS = 10**15 - 1
"""Event times beyond (the year 33658) are refused: sums with windows and lateness stay far from 64 bits."""


def check(pipeline: Pipeline, spark: SparkSession) -> None:
    """Try the transform on no rows.

    Raises:
        SettingsError: it fails, or gives other columns than were declared.

    """
    try:
        given = pipeline.transform(spark.createDataFrame([], KAFKA)).schema
    except Exception as error:
        raise SettingsError(
            f"the transform fails on no rows: {str(error).strip().splitlines()[0][:300]}", _where(pipeline),
            "Correct it.",
        ) from error  # fmt: skip
    found = {field.name: field.dataType for field in given}
    wrong = []
    for column in [*pipeline.input, *REFUSED, *(SENT if pipeline.ahead_ms is not None else ())]:
        if column.name not in found:
            wrong.append(f"{column.name} is missing")
        elif column.name == "id" and isinstance(found["id"], BinaryType):
            continue
        elif to_arrow_type(found[column.name]) != column.type:
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
