"""Keeps executors and their Python workers ready while a driver waits: jobs that read no record and write nothing."""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

EVERY_S = 30.0
"""Spark ends a Python worker that had nothing to do for a minute."""
STAY_S = 0.5
"""For so long a task stays, so that each slot gets one of them."""

log = structlog.get_logger()


def start(spark: SparkSession, plan: Callable[[], DataFrame], over: threading.Event) -> None:
    """Begin in a thread of its own, until `over` is set: executors take seconds to come, and the lease is looked at.

    Args:
        spark: the session.
        plan: gives the rows of an epoch that reads nothing, as far as they are before anything is decided.
        over: ends it.

    """
    threading.Thread(target=_run, args=(spark, plan, over), name="warmth", daemon=True).start()


def warm(spark: SparkSession) -> None:
    """Run one task for each slot, which imports there what an epoch needs."""
    slots = spark.sparkContext.defaultParallelism
    spark.range(0, slots, 1, slots).mapInArrow(_stay, "id long").collect()


def _run(spark: SparkSession, plan: Callable[[], DataFrame], over: threading.Event) -> None:
    planned = False
    while not over.is_set():
        try:
            warm(spark)
            if not planned:
                # The JVM loads what reads a topic and brings rows together: seconds of a first epoch.
                plan().mapInArrow(_import, "nothing int").collect()
                log.info("executors are warm")
            planned = True
        except Exception as error:
            # A take-over finds out whether there is anything to run on; an executor may have died here.
            log.warning("executors were not warmed", error=str(error).split("\n")[0][:300])
        over.wait(EVERY_S)


def _import(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    importlib.import_module("effectively_once.epoch.epoch")
    for _ in batches:
        pass
    yield from ()


def _stay(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from _import(batches)
    time.sleep(STAY_S)
