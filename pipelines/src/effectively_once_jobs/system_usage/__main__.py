"""`python -m effectively_once_jobs.system_usage SETTINGS.json`: the semantics are a setting."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import traceback
from pathlib import Path

from effectively_once.driver.main import SPARK_CONF, UNNAMED
from effectively_once.driver.main import run as run_pipeline
from effectively_once.driver.session import session
from effectively_once.driver.worker_errors import name_error
from effectively_once.errors import PipelineError, SettingsError, one_line
from effectively_once.progress import announce
from effectively_once_jobs.system_usage import acknowledged, declare, in_batches
from effectively_once_jobs.system_usage.settings import ACKNOWLEDGED, EXACTLY_ONCE, UsageSettings, load

POLL_S = 0.2


def main(argv: list[str]) -> int:
    """Run until SIGTERM or SIGINT; returns the exit code."""
    try:
        if len(argv) != 1:
            raise SettingsError("one argument is needed: the settings file", "command line", "Name it.")
        settings = load(Path(argv[0]))
        if settings.semantics == EXACTLY_ONCE:
            return run_pipeline(argv, declare(settings.database, settings.pipeline))
        _run(settings)
    except Exception as error:
        named = name_error(error)
        if named is None:
            traceback.print_exc()
        sys.stderr.write(one_line(named or error) + "\n")
        return named.exit_code if isinstance(named, PipelineError) else UNNAMED
    return 0


def _run(settings: UsageSettings) -> None:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    conf: dict[str, str] = json.loads(os.environ.get(SPARK_CONF, "{}"))
    spark = session(settings, conf)
    announce("driver", state="started", pid=os.getpid(), generation=1)
    try:
        if settings.semantics == ACKNOWLEDGED:
            acknowledged.run(settings, spark, stop)
            return
        query = in_batches.start(settings, spark)
        while not stop.is_set():
            if query.awaitTermination(POLL_S):
                raise RuntimeError("the query ended by itself")
        query.stop()
    finally:
        spark.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
