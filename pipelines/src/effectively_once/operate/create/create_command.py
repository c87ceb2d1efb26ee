"""Makes what a pipeline needs before it starts: bucket, topics and tables. Safe to run again, and with others at once.

    python -m effectively_once create settings.json --source-partitions 4 --replication 1

It ends when the broker names a leader for every partition. Nothing that exists is changed: a topic of another shape is
a named error. A sink that is new to a pipeline which has published begins with the next epoch (`added.py`). Exit codes
are those of `effectively_once.errors`. It needs no Spark.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from effectively_once.errors import PipelineError
from effectively_once.operate.create.bucket import EVENT_LOG
from effectively_once.operate.create.create import create, create_needed
from effectively_once.operate.create.needs import needs_of, undeclared
from effectively_once.operate.create.topics import source_topics
from effectively_once.pipeline.job import job_of
from effectively_once.pipeline.settings import load


def _number(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text}: at least 1")
    return value


def main(argv: Sequence[str]) -> int:
    """Read the command line, do it, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m effectively_once create", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("settings", type=Path, help="settings file of the pipeline")
    parser.add_argument("--whole", type=Path, help="what the job's program reads, where that is another file")
    parser.add_argument("--source-partitions", type=_number, help="make the source too, with so many partitions")
    parser.add_argument("--replication", type=_number, default=1, help="copies of every topic")
    parser.add_argument("--event-log-bucket", help="bucket that gets a folder for Spark's event logs")
    parser.add_argument("--event-log-folder", default=EVENT_LOG, help="its name, with a slash at the end")
    parser.add_argument("--deadline-s", type=float, default=300.0, help="seconds for bucket and for topics")
    given = parser.parse_args(argv)
    try:
        how: dict[str, Any] = {
            "replication": given.replication,
            "deadline_s": given.deadline_s,
            "source_partitions": given.source_partitions,
            "event_log_bucket": given.event_log_bucket,
            "event_log_folder": given.event_log_folder,
            "say": lambda line: sys.stdout.write(line + "\n"),
        }
        settings = load(given.settings)
        needs = needs_of(settings.job, given.whole or given.settings)
        if undeclared(settings.job):
            source = source_topics(settings, given.source_partitions)
            create_needed(settings, needs, lambda _: source, **how)
        else:
            create(job_of(given.settings), needs=needs, **how)
    except PipelineError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0
