"""S1 as it is written for plain Spark: copies dropped, events counted per user and minute, Spark's own Kafka sink.

`python -m tests.bench.s1_spark_job SETTINGS.json` runs until the process is ended. At least once: a batch that is
repeated is sent again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import functions as f

from tests.bench.spark_arm import ROCKSDB, plain_session, watch

FIELDS = "id string, user string, event_time_ms long, payload string, crc long"


def main(argv: list[str]) -> None:
    """Read the settings: bootstrap, topic, output, checkpoint (a folder), batch_rows, window_ms, lateness_ms."""
    asked = json.loads(Path(argv[0]).read_text())
    spark = plain_session("s1", ROCKSDB)
    options = {"kafka.bootstrap.servers": asked["bootstrap"]}
    lateness, window = (f"{asked[name]} milliseconds" for name in ("lateness_ms", "window_ms"))
    source = (
        spark.readStream.format("kafka")
        .options(**options)
        .option("subscribe", asked["topic"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(asked["batch_rows"]))
        .load()
    )
    events = source.select(f.from_json(f.col("value").cast("string"), FIELDS).alias("r")).select(
        "r.id", "r.user", f.timestamp_millis("r.event_time_ms").alias("event_time")
    )
    counts = (
        events.withWatermark("event_time", lateness)
        .dropDuplicatesWithinWatermark(["id"])
        .groupBy("user", f.window("event_time", window).alias("window"))
        .count()
        .select("user", f.unix_millis("window.start").alias("window_start_ms"), "count")
    )
    rows = counts.select(f.col("user").alias("key"), f.to_json(f.struct("*")).alias("value"))
    query = (
        rows.writeStream.format("kafka")
        .options(**options)
        .option("topic", asked["output"])
        .option("checkpointLocation", asked["checkpoint"])
        .outputMode("append")
        .start()
    )
    watch(query)


if __name__ == "__main__":
    main(sys.argv[1:])
