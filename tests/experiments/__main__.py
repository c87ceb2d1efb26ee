"""`python -m tests.experiments RUN --to FOLDER`: judge a run of an experiment again, and copy what is kept of it.

Exit code 0 pass, 1 fail, 2 unknown.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.experiments.kinds import EXPERIMENTS, experiment, judged_again, kind_of
from tests.experiments.run_folder import RESULTS, keep


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks for; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.experiments", description=__doc__)
    parser.add_argument("run", type=Path, help="its folder")
    parser.add_argument("--to", type=Path, help="where to copy its results")
    given = parser.parse_args(arguments)
    if (kind := kind_of(given.run)) not in EXPERIMENTS:
        sys.stderr.write(f"✗ {given.run} is a run of {kind}, no experiment: `make check RUN={given.run}`\n")
        return 2
    code = judged_again(experiment(kind), given.run)
    if given.to is not None and (given.run / RESULTS).is_file():
        keep(given.run, given.to)
    return code


if __name__ == "__main__":
    sys.exit(main())
