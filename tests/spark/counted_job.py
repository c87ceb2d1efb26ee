"""A job whose state is Spark's own: rows by user and window, counted by Spark's aggregation. For tests alone."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from effectively_once import Pipeline, Stateful, ToFiles, ToKafka
from effectively_once_jobs.user_counts.transform import events

WINDOW_MS = 60_000
WHOLE = pa.int64()


def counted(rows: DataFrame) -> DataFrame:
    """Count rows and checksums by user and window."""
    groups = rows.groupBy(f.window("event_time", f"{WINDOW_MS} milliseconds"), "user")
    found = groups.agg(f.count("*").alias("count"), f.sum("crc").alias("crc"))
    return found.select("user", f.unix_millis("window.start").alias("window_start_ms"), "count", "crc")


def shifted(rows: DataFrame) -> DataFrame:
    """Count by a time an hour before the row's, said to be under the same watermark: Spark takes every row for late."""
    earlier = f.expr("event_time - interval 1 hour").alias("event_time", metadata={"spark.watermarkDelayMs": 1})
    return counted(rows.select("user", "crc", earlier))


def unclosed(rows: DataFrame) -> DataFrame:
    """Count by user alone: no result is ever final."""
    return rows.groupBy("user").agg(
        f.lit(0).cast("long").alias("window_start_ms"), f.count("*").alias("count"), f.sum("crc").alias("crc")
    )


def delayed(rows: DataFrame) -> DataFrame:
    """Count with a watermark of its own."""
    return counted(rows.withWatermark("event_time", "1 day"))


def doubled(rows: DataFrame) -> DataFrame:
    """Count every row twice."""
    return counted(rows.union(rows))


def renamed(rows: DataFrame) -> DataFrame:
    """Give other columns than declared."""
    return counted(rows).withColumnRenamed("count", "number")


def drawn(rows: DataFrame) -> DataFrame:
    """Count with a checksum that chance has a part in."""
    return counted(rows).withColumn("crc", (f.rand() * f.col("crc")).cast("long"))


def timed(rows: DataFrame) -> DataFrame:
    """Count with a checksum that a clock has a part in; Spark repeats a batch at the batch's own time."""
    return counted(rows).withColumn("crc", f.unix_millis(f.current_timestamp()))


def unfit(rows: DataFrame) -> DataFrame:
    """Give a mean that is no number where a count is even."""
    mean = f.when(f.col("count") % 2 == 0, f.lit(float("nan"))).otherwise(1.0).alias("mean")
    return counted(rows).select("user", mean)


MEANS = pa.schema([("user", pa.string()), ("mean", pa.float64())])
COUNTS = pa.schema([("user", pa.string()), ("window_start_ms", WHOLE), ("count", WHOLE), ("crc", WHOLE)])


def _pipeline(function: Callable[[DataFrame], DataFrame], results: pa.Schema = COUNTS) -> Pipeline:
    return Pipeline(
        transform=events,
        columns=pa.schema([("user", pa.string()), ("payload", pa.string()), ("crc", WHOLE)]),
        rows=(ToKafka("accepted", key="user"), ToFiles("archive")),
        stateful=Stateful(function, results, by="user", to=ToKafka("user_counts", key="user")),
        window_ms=WINDOW_MS,
        lateness_ms=120_000,
    )


pipeline = _pipeline(counted)
shifted_pipeline = _pipeline(shifted)
"""One whose operators go by another time than the row's."""
unclosed_pipeline, delayed_pipeline = _pipeline(unclosed), _pipeline(delayed)
doubled_pipeline, renamed_pipeline, drawn_pipeline = _pipeline(doubled), _pipeline(renamed), _pipeline(drawn)
"""Those that are refused when they are started."""
timed_pipeline = _pipeline(timed)
"""One that is taken."""
unfit_pipeline = _pipeline(unfit, MEANS)
"""One with results that no sink could hold."""
