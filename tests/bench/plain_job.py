"""The first arm: `user_counts`' own transform on plain Spark, at least once, without any state.

Accepted rows go to Spark's own Kafka sink, batch by batch, and counts of each batch as updates.
That is less than the pipeline does (no dedup, no closed windows), so what the pipeline costs is not understated.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from effectively_once.driver.main import SPARK_CONF
from effectively_once.driver.session import session
from effectively_once.pipeline.settings import load
from effectively_once.progress import announce
from effectively_once_jobs.user_counts.transform import events

FIELDS = ("id", "user", "event_time_ms", "payload", "crc")


def main(argv: list[str]) -> None:
    """Run until the process is ended; every batch is announced as an epoch is."""
    settings = load(Path(argv[0]))
    spark = session(settings, json.loads(os.environ.get(SPARK_CONF, "{}")))
    options = {"kafka.bootstrap.servers": settings.kafka_bootstrap}
    source = (
        spark.readStream.format("kafka")
        .options(**options)
        .option("subscribe", settings.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(settings.epoch_rows_max))
        .load()
    )

    def publish(batch: DataFrame, number: int) -> None:
        announce("epoch", state="declared", epoch=number)
        rows = events(batch).where("reason is null").persist()
        _send(rows.select(f.col("user").alias("key"), f.to_json(f.struct(*FIELDS)).alias("value")), "accepted")
        minute = (f.col("event_time_ms") - f.col("event_time_ms") % settings.window_ms).alias("window_start_ms")
        counts = rows.groupBy("user", minute).count()
        _send(counts.select(f.col("user").alias("key"), f.to_json(f.struct("*")).alias("value")), "user_counts")
        announce("epoch", state="published", epoch=number, **{"in": batch.count()})
        rows.unpersist()

    def _send(rows: DataFrame, sink: str) -> Any:
        rows.write.format("kafka").options(**options).option("topic", f"{settings.pipeline}.{sink}").save()

    folder = f"s3://{settings.s3_bucket}/{settings.pipeline}/checkpoint"
    source.writeStream.foreachBatch(publish).option("checkpointLocation", folder).start().awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1:])
