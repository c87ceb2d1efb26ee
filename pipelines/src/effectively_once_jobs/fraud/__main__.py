"""`python -m effectively_once_jobs.fraud SETTINGS.json`: all roles, until SIGTERM or SIGINT."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import traceback
from pathlib import Path

from effectively_once.driver.main import SPARK_CONF, UNNAMED
from effectively_once.driver.session import session
from effectively_once.errors import PipelineError, SettingsError, one_line
from effectively_once.progress import announce
from effectively_once_jobs.fraud.roles import supervise
from effectively_once_jobs.fraud.settings import load


def main(argv: list[str]) -> int:
    """Run until SIGTERM or SIGINT; returns the exit code."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        if len(argv) != 1:
            raise SettingsError("one argument is needed: the settings file", "command line", "Name it.")
        settings = load(Path(argv[0]))
        conf: dict[str, str] = json.loads(os.environ.get(SPARK_CONF, "{}"))
        spark = session(settings, conf)
        announce("driver", state="started", pid=os.getpid())
        try:
            supervise(settings, spark, stop)
        finally:
            spark.stop()
    except Exception as error:
        if not isinstance(error, PipelineError):
            traceback.print_exc()
        sys.stderr.write(one_line(error) + "\n")
        return error.exit_code if isinstance(error, PipelineError) else UNNAMED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
