"""The process around a driver: settings in, session up, query running until a signal or a named error."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

import structlog

from effectively_once.driver import Driver, Split, one_line
from effectively_once.errors import PipelineError, SettingsError
from effectively_once.session import session
from effectively_once.settings import load
from effectively_once.worker_errors import named_error

POLL_S = 0.5
UNNAMED = 70
"""Exit code of what has no name: a defect, or a failure of Spark."""
WHEEL_DIGEST, SPARK_CONF = "EFFECTIVELY_ONCE_WHEEL_DIGEST", "EFFECTIVELY_ONCE_SPARK_CONF"


def run(split: Split, argv: list[str]) -> int:
    """Run a job until SIGTERM or SIGINT, and return the exit code.

    The environment gives credentials, the wheel's digest and, as JSON, the Spark settings of the place it runs in.
    """
    structlog.configure(
        processors=[structlog.processors.TimeStamper(fmt="iso"), structlog.processors.add_log_level,
                    structlog.processors.JSONRenderer()],
    )  # fmt: skip
    stop: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: stop.append(received))
    try:
        return _run(split, argv, stop)
    except Exception as error:
        named = named_error(error)
        if named is None:
            traceback.print_exc()
        return _told(named or error)


def _run(split: Split, argv: list[str], stop: list[int]) -> int:
    if len(argv) != 1:
        raise SettingsError("one argument is needed: the settings file", "command line", "Name it.")
    driver = Driver(load(Path(argv[0])), split, os.environ.get(WHEEL_DIGEST) or code_digest(split))
    # Before the session: what cannot succeed is refused without waiting for a JVM.
    driver.check()
    conf: dict[str, str] = json.loads(os.environ.get(SPARK_CONF, "{}"))
    spark = session(driver.settings, conf)
    try:
        query = driver.start(spark)
        error = _watched(query, driver, stop)
        driver.stop()
        query.stop()
    finally:
        spark.stop()
    if error is None and not isinstance(driver.failure, InterruptedError):
        # The signal came while an epoch failed: that is not a stop in order.
        error = driver.failure
    return 0 if error is None else _told(driver.named(error) or error)


def code_digest(split: Split) -> str:
    """Digest of library and job, for a start without a wheel: other code is another version (R3)."""
    files = sorted(Path(__file__).parent.rglob("*.py"))
    job = inspect.getsourcefile(split)
    digest = hashlib.sha256()
    for path in [*files, *([Path(job)] if job else [])]:
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def _told(error: BaseException) -> int:
    """Say in one line on stderr what happened, and return the exit code for it."""
    sys.stderr.write(one_line(error) + "\n")
    return error.exit_code if isinstance(error, PipelineError) else UNNAMED


def _watched(query: Any, driver: Driver, stop: list[int]) -> BaseException | None:
    """Wait until the query ends (its error) or a signal asks to stop (None)."""
    while not stop:
        try:
            if query.awaitTermination(POLL_S):
                return RuntimeError("the query ended by itself")
        except Exception as error:
            return driver.failure or error
    return None
