"""S1 as it is written for plain Spark: copies dropped, events counted per user and minute, Spark's own Kafka sink.

`python -m tests.bench.s1_spark_job SETTINGS.json` runs until the process is ended. At least once: a batch that is
repeated is sent again. A query has one sink: with a topic of accepted rows a second query counts what the first one
sent there, so that copies are looked for once.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StreamingQuery

from tests.bench.spark_arm import ROCKSDB, plain_session, watch

FIELDS = "id string, user string, event_time_ms long, payload string, crc long"
FAIR = {"spark.scheduler.mode": "FAIR"}
"""As is advised for queries side by side: the first would have all tasks until it is through."""


def main(argv: list[str]) -> None:
    """Run with settings.

    They are bootstrap, topic, output, accepted (a topic, or null), producer (Kafka's settings), checkpoint (a folder),
    batch_rows, window_ms and lateness_ms.
    """
    asked = json.loads(Path(argv[0]).read_text())
    spark = plain_session("s1", {**ROCKSDB, **FAIR})
    unique = _events(spark, asked, asked["topic"]).dropDuplicatesWithinWatermark(["id"])
    if asked["accepted"] is None:
        watch(_publish(_counts(unique, asked), asked, "output"))
        return
    first = _publish(unique.select(f.col("user").alias("key"), "value"), asked, "accepted")
    watch(_publish(_counts(_events(spark, asked, asked["accepted"]), asked), asked, "output"), beside=[first])


def _events(spark: SparkSession, asked: dict[str, Any], topic: str) -> DataFrame:
    source = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", asked["bootstrap"])
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(asked["batch_rows"]))
        .load()
    )
    parsed = source.select("value", f.from_json(f.col("value").cast("string"), FIELDS).alias("r"))
    events = parsed.select("value", "r.id", "r.user", f.timestamp_millis("r.event_time_ms").alias("event_time"))
    return events.withWatermark("event_time", f"{asked['lateness_ms']} milliseconds")


def _counts(events: DataFrame, asked: dict[str, Any]) -> DataFrame:
    counts = events.groupBy("user", f.window("event_time", f"{asked['window_ms']} milliseconds").alias("window"))
    rows = counts.count().select("user", f.unix_millis("window.start").alias("window_start_ms"), "count")
    return rows.select(f.col("user").alias("key"), f.to_json(f.struct("*")).alias("value"))


def _publish(rows: DataFrame, asked: dict[str, Any], to: str) -> StreamingQuery:
    """Start a query into the topic that is named by a setting, in a pool of its own."""
    rows.sparkSession.sparkContext.setLocalProperty("spark.scheduler.pool", to)
    return (
        rows.writeStream.format("kafka")
        .option("kafka.bootstrap.servers", asked["bootstrap"])
        .options(**{f"kafka.{key}": str(value) for key, value in asked["producer"].items()})
        .option("topic", asked[to])
        .option("checkpointLocation", f"{asked['checkpoint']}/{to}")
        .outputMode("append")
        .start()
    )


if __name__ == "__main__":
    main(sys.argv[1:])
