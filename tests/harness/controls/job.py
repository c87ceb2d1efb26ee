"""The driver of the negative controls: `user_counts`' own transform, with sinks that may publish twice.

`python -m tests.harness.controls.job SETTINGS.json [FOLDER CONTROL...]` runs one query a control (all of them), each on
topics of its own: `<pipeline>.<control>.events` in, `<pipeline>.<control>.accepted` out. A query starts when the file
`FOLDER/<control>.go` (in the folder for temporary files) is there: Spark's first batch takes what it finds, and it is
to find a whole round. The file also runs alone, in a pod: it imports nothing of this repository but the wheel.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from effectively_once.main import SPARK_CONF
from effectively_once.progress import announce
from effectively_once.session import session
from effectively_once.settings import PipelineSettings, load
from effectively_once_jobs.user_counts.transform import events

Start = Callable[[DataFrame, dict[str, str]], Any]
ROUND_ROWS = 60_000


def spark_kafka_sink(accepted: DataFrame, options: dict[str, str]) -> Any:
    """Spark's own Kafka sink: at least once by construction (SPARK-28908); a task that is run again writes again."""
    return accepted.writeStream.format("kafka").options(**options)


def append_without_mark(accepted: DataFrame, options: dict[str, str]) -> Any:
    """Append each batch with foreachBatch, without a progress mark: what a failed batch wrote is written again."""

    def append(batch: DataFrame, _: int) -> None:
        batch.write.format("kafka").options(**options).save()

    return accepted.writeStream.foreachBatch(append)


STARTS: dict[str, Start] = {"spark_kafka_sink": spark_kafka_sink, "append_without_mark": append_without_mark}


def accepted_of(spark: SparkSession, settings: PipelineSettings, topic: str) -> DataFrame:
    """The rows that the job would accept, as key and value."""
    rows = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", settings.kafka_bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        # One batch a round: a kill that is gated on visible records then comes while most are still to be written.
        .option("minOffsetsPerTrigger", str(ROUND_ROWS))
        .option("maxTriggerDelay", "10m")
        .load()
    )
    # `value` is kept for refused rows only; here the accepted ones go on as they came.
    fields = ("id", "user", "event_time_ms", "payload", "crc")
    kept = events(rows).where("reason is null")
    return kept.select(f.col("user").alias("key"), f.to_json(f.struct(*fields)).alias("value"))


def main(argv: list[str]) -> int:
    """Run the named controls until the process is ended; announce their batches."""
    settings, folder, names = load(Path(argv[0])), Path(*(argv[1:2] or [tempfile.gettempdir()])), argv[2:] or [*STARTS]
    spark = session(settings, json.loads(os.environ.get(SPARK_CONF, "{}")))
    announce("controls", state="started", pid=os.getpid())
    queries: dict[str, Any] = {}
    told: dict[str, int] = dict.fromkeys(names, -1)
    while True:
        for name in names:
            if name not in queries and (folder / f"{name}.go").exists():
                queries[name] = _started(spark, settings, name)
        for name, query in queries.items():
            for progress in query.recentProgress:
                if progress["batchId"] > told[name] and progress["numInputRows"] > 0:
                    told[name] = progress["batchId"]
                    _tell(name, progress)
            if query.exception() is not None:
                raise RuntimeError(f"control {name} ended: {query.exception()}")
        time.sleep(0.05)


def _started(spark: SparkSession, settings: PipelineSettings, name: str) -> Any:
    options = {"kafka.bootstrap.servers": settings.kafka_bootstrap, "topic": f"{settings.pipeline}.{name}.accepted"}
    checkpoint = f"s3://{settings.s3_bucket}/{settings.pipeline}/controls/{name}"
    writer = STARTS[name](accepted_of(spark, settings, f"{settings.pipeline}.{name}.events"), options)
    return writer.option("checkpointLocation", checkpoint).queryName(name).start()


def _tell(name: str, progress: Any) -> None:
    began = datetime.fromisoformat(progress["timestamp"]).timestamp() * 1000
    announce(
        "batch", control=name, epoch=progress["batchId"], declared=round(began),
        published=round(began + progress["batchDuration"]), rows=progress["numInputRows"],
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
