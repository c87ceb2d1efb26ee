"""S1 as it is written for the library, and no more: counts per user and minute, copies dropped; no sink of events."""

from __future__ import annotations

import sys

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from effectively_once import Count, Pipeline, ToFiles, ToKafka, Windowed
from effectively_once.driver.main import run
from tests.bench.s1_spark_job import FIELDS


def events(rows: DataFrame) -> DataFrame:
    """Parse as the plain Spark arm does; what is no JSON has no id, and goes to the dead letters."""
    parsed = rows.withColumn("r", f.from_json(f.col("value").cast("string"), FIELDS))
    return parsed.select(
        "topic",
        "partition",
        "offset",
        "value",
        "r.id",
        "r.user",
        "r.event_time_ms",
        f.lit(None).cast("string").alias("reason"),
    )


pipeline = Pipeline(
    transform=events,
    columns=pa.schema([("user", pa.string())]),
    windows=(
        Windowed(
            by="user", values={"count": Count()}, to=ToKafka("user_counts", key="user"), totals=ToFiles("global_counts")
        ),
    ),
)

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], pipeline))
