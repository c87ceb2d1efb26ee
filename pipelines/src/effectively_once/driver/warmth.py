"""Keeps executors and their Python workers ready while a driver waits: a job of no input that writes nothing."""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

EVERY_S = 30.0
"""Spark ends a Python worker that had nothing to do for a minute."""
STAY_S = 0.5
"""For so long a task stays, so that each slot gets one of them."""

log = structlog.get_logger()


def start(spark: SparkSession, over: threading.Event) -> None:
    """Begin in a thread of its own, until `over` is set: executors take seconds to come, and the lease is looked at."""
    threading.Thread(target=_run, args=(spark, over), name="warmth", daemon=True).start()


def warm(spark: SparkSession) -> None:
    """Run one task for each slot, which imports there what an epoch needs."""
    slots = spark.sparkContext.defaultParallelism
    spark.range(0, slots, 1, slots).mapInArrow(_import, "id long").collect()


def _run(spark: SparkSession, over: threading.Event) -> None:
    said = False
    while not over.is_set():
        try:
            warm(spark)
            if not said:
                log.info("executors are warm")
            said = True
        except Exception as error:
            # A take-over finds out whether there is anything to run on; an executor may have died here.
            log.warning("executors were not warmed", error=str(error).split("\n")[0][:300])
        over.wait(EVERY_S)


def _import(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    importlib.import_module("effectively_once.epoch.epoch")
    yield from batches
    time.sleep(STAY_S)
