"""`python -m effectively_once_jobs.two_ways SETTINGS.json`: the query, or one operator, until SIGTERM or SIGINT."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import traceback
from functools import partial
from pathlib import Path

from effectively_once import points
from effectively_once.errors import PipelineError, SettingsError
from effectively_once.progress import announce
from effectively_once.store.object_store import S3ObjectStore
from effectively_once_jobs.two_ways.memory import Memory
from effectively_once_jobs.two_ways.notes import Notes
from effectively_once_jobs.two_ways.settings import SNAPSHOTS, WaySettings, load
from effectively_once_jobs.two_ways.stage import TAKEN, Stage
from effectively_once_jobs.two_ways.table import ResultTable
from effectively_once_jobs.two_ways.topics import Input, Output

POLL_S = 0.2
UNNAMED = 1
SPARK_CONF = "EFFECTIVELY_ONCE_SPARK_CONF"


def main(argv: list[str]) -> int:
    """Run; returns the exit code."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        if len(argv) != 1:
            raise SettingsError("one argument is needed: the settings file", "command line", "Name it.")
        settings = load(Path(argv[0]))
        (_query if settings.way == SNAPSHOTS else _operator)(settings, stop)
    except PipelineError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return error.exit_code
    except Exception:
        traceback.print_exc()
        return UNNAMED
    return 0


def _query(settings: WaySettings, stop: threading.Event) -> None:
    # An operator of dedup starts without Spark and pandas, and so sooner.
    from effectively_once.driver.session import session  # noqa: PLC0415
    from effectively_once_jobs.two_ways import query  # noqa: PLC0415

    conf: dict[str, str] = json.loads(os.environ.get(SPARK_CONF, "{}"))
    spark = session(settings, conf)
    announce("driver", state="started", pid=os.getpid(), generation=1)
    try:
        running = query.start(settings, spark)
        while not stop.is_set():
            if running.awaitTermination(POLL_S):
                raise RuntimeError("the query ended by itself")
        running.stop()
    finally:
        spark.stop()


def _operator(settings: WaySettings, stop: threading.Event) -> None:
    memory = Memory(drops_copies=settings.catalog)
    notes = Notes(S3ObjectStore(settings.bucket), settings.pipeline, settings.operator)
    read = notes.restore(memory)
    pass_on = ResultTable(settings.database, settings.pipeline).write if settings.last else Output(settings).pass_on
    stage = Stage(Input(settings), pass_on, memory, notes, partial(_at, settings.operator))
    announce("driver", state="started", pid=os.getpid(), operator=settings.operator, restored_objects=read)
    while not stop.is_set():
        stage.turn()


def _at(operator: int, point: str, taken: int, copies: int) -> None:
    """Tell observers of a turn; a test may hold the process here."""
    if point == TAKEN:
        announce(TAKEN, operator=operator, pid=os.getpid(), rows=taken, copies=copies)
    points.reach(point, operator=operator)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
