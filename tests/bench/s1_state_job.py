"""S1 with Spark's own state: Spark's aggregation counts per user and minute, behind our catalog, which drops copies."""

from __future__ import annotations

import sys

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from effectively_once import Pipeline, Stateful, ToKafka
from effectively_once.driver.main import run
from effectively_once_jobs.user_counts.transform import events
from tests.bench.s1_events import WINDOW_MS

COUNTS = pa.schema([("user", pa.string()), ("window_start_ms", pa.int64()), ("count", pa.int64())])


def count(rows: DataFrame) -> DataFrame:
    """Count rows by user and window."""
    found = rows.groupBy(f.window("event_time", f"{WINDOW_MS} milliseconds"), "user").count()
    return found.select("user", f.unix_millis("window.start").alias("window_start_ms"), "count")


pipeline = Pipeline(
    transform=events,
    columns=pa.schema([("user", pa.string())]),
    stateful=Stateful(count, COUNTS, by="user", to=ToKafka("user_counts", key="user")),
)

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], pipeline))
