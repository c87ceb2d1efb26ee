"""The roles as long tasks of Spark: it places them, and starts one again whose executor is lost."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterable, Iterator
from functools import partial

from py4j.protocol import Py4JError
from pyspark import InheritableThread, TaskContext
from pyspark.sql import SparkSession

from effectively_once.progress import announce
from effectively_once_jobs.fraud import aggregate, analyze
from effectively_once_jobs.fraud.analyzers import ANALYZERS
from effectively_once_jobs.fraud.settings import FraudSettings

ROLES = (*ANALYZERS, aggregate.NAME)
AGAIN_S = 1.0


def supervise(settings: FraudSettings, spark: SparkSession, stop: threading.Event) -> None:
    """Run every role as a job of its own until `stop` is set.

    A job each, so that a role that Spark gives up (too many lost executors) is begun anew without the others.
    """
    threads = [
        InheritableThread(target=_supervise, args=(settings, spark, role, stop), name=role, daemon=True)
        for role in ROLES
    ]
    for thread in threads:
        thread.start()
    stop.wait()
    spark.sparkContext.cancelAllJobs()
    for thread in threads:
        thread.join(timeout=5.0)


def _supervise(settings: FraudSettings, spark: SparkSession, role: str, stop: threading.Event) -> None:
    task = partial(_task, settings)
    while not stop.is_set():
        try:
            spark.sparkContext.parallelize([role], 1).mapPartitions(task).collect()
            says = "its task ended by itself"
        except Py4JError as error:
            says = str(error).splitlines()[0][:300]
        if not stop.is_set():
            announce("role", role=role, state="given_up", says=says)
            stop.wait(AGAIN_S)


def _task(settings: FraudSettings, roles: Iterable[str]) -> Iterator[str]:
    """On an executor: be a role for good. Spark ends the process when the job is cancelled."""
    # What is there stays there: a look at all of it takes as long as a decision.
    gc.collect()
    gc.freeze()
    context = TaskContext.get()
    for role in roles:
        announce("role", role=role, state="placed", attempt=context.attemptNumber() if context else 0)
        if role in ANALYZERS:
            analyze.run(settings, role, lambda: True)
        else:
            aggregate.run(settings, lambda: True)
        yield role
