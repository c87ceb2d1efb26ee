"""`python -m tests.harness.judge RUN`: judge a run again; exit code 0 pass, 1 fail, 2 unknown or no run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from tests.harness.judge.verdict import judge, show


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge the run directory named on the command line; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    console = Console(soft_wrap=True)
    if len(given) != 1:
        console.print("one argument is needed: the run directory, for example runs/latest")
        return 2
    run = Path(given[0])
    if not run.is_dir():
        console.print(f"no run directory: {escape(str(run))}; name one below runs/", highlight=False)
        return 2
    try:
        results = judge(run)
    except OSError as error:
        # An archive that cannot be written to is judged all the same.
        console.print(f"results not written: {escape(str(error))}", highlight=False)
        results = judge(run, write=False)
    show(results, console)
    return results.verdict.exit_code


if __name__ == "__main__":
    raise SystemExit(main())
