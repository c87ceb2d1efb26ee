"""The process around a driver: settings in, session up, query running until a signal or a named error."""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import structlog
from pyspark.sql import SparkSession

from effectively_once.driver import left_pods
from effectively_once.driver.control import stopped_line
from effectively_once.driver.driver import Driver
from effectively_once.driver.runtime import runtime_of
from effectively_once.driver.scratch import try_scratch
from effectively_once.driver.session import session
from effectively_once.driver.shortage import name_shortage
from effectively_once.driver.standby import Standby
from effectively_once.driver.version import code_digest
from effectively_once.driver.worker_errors import name_error
from effectively_once.errors import ControlError, PipelineError, SettingsError, one_line
from effectively_once.pipeline.job import job_of
from effectively_once.pipeline.pipeline import Pipeline

POLL_S = 0.5
UNNAMED = 70
"""Exit code of what has no name: a defect, or a failure of Spark."""
WHEEL_DIGEST, SPARK_CONF = "EFFECTIVELY_ONCE_WHEEL_DIGEST", "EFFECTIVELY_ONCE_SPARK_CONF"


def run(argv: Sequence[str], pipeline: Pipeline | None = None) -> int:
    """Run a pipeline until SIGTERM or SIGINT, and return the exit code.

    Args:
        argv: the settings file.
        pipeline: the declaration; None for the one that the settings name as `job`.

    The environment gives credentials, the wheel's digest and, as JSON, the Spark settings of the place it runs in.
    """
    structlog.configure(
        processors=[
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.add_log_level,
            structlog.processors.JSONRenderer(),
        ],
    )
    stop: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: stop.append(received))
    try:
        ended_by = _run(argv, pipeline, stop)
    except Exception as error:
        ended_by = name_error(error) or name_shortage(f"{type(error).__name__}: {error}")
        if ended_by is None:
            traceback.print_exc()
            ended_by = error
    # The last line of the log: what Spark had to say of its end came before.
    return 0 if ended_by is None else _report(ended_by)


def _run(argv: Sequence[str], pipeline: Pipeline | None, stop: list[int]) -> BaseException | None:
    """Return what ended it, once Spark has stopped; None if it was to end."""
    if len(argv) != 1:
        raise SettingsError("one argument is needed: the settings file", "command line", "Name it.")
    job = job_of(Path(argv[0]), pipeline)
    conf: dict[str, str] = json.loads(os.environ.get(SPARK_CONF, "{}"))
    digest = os.environ.get(WHEEL_DIGEST) or code_digest(*job.pipeline.functions)
    driver = Driver(job, digest, runtime_of(conf))
    try_scratch(conf)
    # Before the session: what cannot succeed is refused without waiting for a JVM.
    driver.check()
    spark: SparkSession | None = None
    try:
        if driver.settings.standby:
            # The other way round: what takes long is done before the chain is free.
            spark = session(driver.settings, conf)
            if not Standby(driver, spark).wait(stop):
                return None
        else:
            driver.take_over()
        if driver.head.declared is None and (drained := driver.find_finished_drain()) is not None:
            sys.stdout.write(f"{stopped_line(drained)}\n")
            return None
        spark = spark or session(driver.settings, conf)
        return _work(driver, spark, stop)
    finally:
        driver.release()
        if spark is not None:
            spark.stop()


def _work(driver: Driver, spark: SparkSession, stop: list[int]) -> BaseException | None:
    """Run epochs until the end, and return what ended them; None if a signal or a drain asked for it."""
    try:
        query = driver.start(spark)
        left_pods.watch(spark, driver.stopping)
        error = _watch(query, driver, stop, spark.sparkContext.cancelAllJobs)
        driver.stop()
        query.stop()
    except PipelineError:
        raise
    except Exception as failure:
        # The declared epoch is finished before there is a query that could fail.
        named = driver.name_error(failure)
        if named is None:
            raise
        raise named from failure
    if error is None and not isinstance(driver.failure, InterruptedError):
        # The signal came while an epoch failed: that is not a stop in order.
        error = driver.failure
    return None if error is None else driver.name_error(error) or error


def _report(error: BaseException) -> int:
    """Say in one line on stderr what happened, and return the exit code for it."""
    sys.stderr.write(one_line(error) + "\n")
    return error.exit_code if isinstance(error, PipelineError) else UNNAMED


def _watch(query: Any, driver: Driver, stop: list[int], cancel: Callable[[], None]) -> BaseException | None:
    """Wait until the query ends (its error), a signal asks to stop, or a drain is done (None)."""
    ended = False
    while not stop:
        drained = driver.find_finished_drain()
        if drained is not None:
            sys.stdout.write(f"{stopped_line(drained)}\n")
            break
        if ended:
            return ControlError(
                "the pipeline was to be drained, and was asked otherwise when it had ended",
                driver.layout.control,
                "Start it again: all that it read is published, and it goes on from there.",
            )
        replaced = driver.find_replacement()
        if replaced is not None:
            # Each of its tasks would find that out for itself, and be tried again and again.
            cancel()
            if not driver.busy.locked():
                return replaced
        try:
            if query.awaitTermination(POLL_S):
                return RuntimeError("the query ended by itself")
            driver.watch_triggers(query)
        except Exception as error:
            if not isinstance(driver.failure, InterruptedError):
                return driver.failure or error
            # It refused an epoch beyond the drain's ends: looked at once more, to say so.
            ended = True
    return None
