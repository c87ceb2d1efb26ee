"""`python -m effectively_once_jobs.reconcile SETTINGS.json --to FOLDER [--beside TOPIC] [--since MS]`.

SETTINGS are the stream's own. Exit code 0: it is accurate in every window that it has closed. 1: it is not. Others name
why it cannot be told. The stream has to be stopped, or drained.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from effectively_once.driver.main import UNNAMED
from effectively_once.driver.worker_errors import name_error
from effectively_once.errors import PipelineError, one_line
from effectively_once.pipeline.job import job_of
from effectively_once_jobs.reconcile.difference import total
from effectively_once_jobs.reconcile.run import reconcile


def main(argv: Sequence[str]) -> int:
    """Reconcile; returns the exit code."""
    given = _parse_arguments(argv)
    try:
        found = reconcile(job_of(given.settings), given.to, given.beside, given.since)
    except Exception as error:
        named = name_error(error)
        if named is None:
            traceback.print_exc()
        sys.stderr.write(one_line(named or error) + "\n")
        return named.exit_code if isinstance(named, PipelineError) else UNNAMED
    whole = total(found)
    sys.stdout.write(
        f"{len(found)} windows: the stream says {whole.stream:,}, the batch run {whole.batch:,}; {whole.late:,} were "
        f"refused as late; beyond that the stream has {whole.over:,} too many and {whole.under:,} too few\n"
    )
    return 1 if whole.wrong else 0


def _parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m effectively_once_jobs.reconcile", description=__doc__)
    parser.add_argument("settings", type=Path, help="of the stream")
    parser.add_argument("--to", type=Path, required=True, help="folder for cells.jsonl and report.json")
    parser.add_argument("--beside", action="append", default=[], metavar="TOPIC", help="counts of another job")
    parser.add_argument("--since", type=int, metavar="MS", help="leave out windows that begin before")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
