"""The second stream: `user_counts` on plain Spark, at least once. Transform and counting are those of the declaration.

Each task adds what its part of a batch comes to, by key and window, to a topic of increments, and Spark's checkpoint
says which batches are done. It knows no ids, so copies count, and what a repeat adds is added again. It has no rule of
lateness either: a window takes records for ever, and is never known to be final.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame

from effectively_once import points
from effectively_once.driver.checkpoints import Checkpoint
from effectively_once.driver.main import SPARK_CONF
from effectively_once.driver.session import session
from effectively_once.epoch import rows
from effectively_once.ledger.layout import Layout
from effectively_once.pipeline.settings import load
from effectively_once.progress import announce
from effectively_once.sources.kafka import KafkaSource
from effectively_once.store.object_store import S3ObjectStore
from effectively_once_jobs.user_counts import pipeline
from tests.experiments.reconcile.increments import COUNTS, SCHEMA, add

POLL_S = 0.2


def main(argv: list[str]) -> int:
    """Run until SIGTERM; every batch is announced as an epoch is."""
    settings = load(Path(argv[0]))
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    spark = session(settings, json.loads(os.environ.get(SPARK_CONF, "{}")))
    announce("driver", state="started", pid=os.getpid(), generation=1)
    source, store = KafkaSource(settings), S3ObjectStore(settings.bucket)
    checkpoint = Checkpoint(store, Layout(settings.pipeline), "plain")
    given = rows.judge(pipeline, source.stream(spark, source.first_offsets()))

    def publish(batch: DataFrame, number: int) -> None:
        announce("epoch", epoch=number, state="declared")
        batch.mapInArrow(partial(add, settings, number), SCHEMA).collect()
        points.reach("job_done", epoch=number)
        ends = (checkpoint.offsets(number) or {}).get(settings.topic, {})
        announce("epoch", epoch=number, state="published", reached=sum(ends.values()))

    query = (
        given.where("reason IS NULL")
        .select(COUNTS.by, "event_time_ms")
        .writeStream.foreachBatch(publish)
        .option("checkpointLocation", checkpoint.folder())
        .start()
    )
    while not stop.is_set():
        if query.awaitTermination(POLL_S):
            raise RuntimeError("the query ended by itself")
    query.stop()
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
