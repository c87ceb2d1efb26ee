"""`python -m tests.experiments RUN --to FOLDER`: judge a run of an experiment again, and copy what is kept of it.

Exit code 0 pass, 1 fail, 2 unknown.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from infra.errors import RefusedError
from infra.options import ask
from tests.experiments.kinds import EXPERIMENTS, experiment, judge_again, kind_of
from tests.experiments.run_folder import RESULTS, keep


@dataclass(frozen=True)
class Asked:
    """Judge a run of an experiment again, and copy what is kept of it; exit code 0 pass, 1 fail, 2 unknown."""

    run: Annotated[Path, typer.Argument(metavar="RUN", help="Its folder.")]
    to: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where to copy its results.")] = None


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks for; returns the exit code."""
    return ask(Asked, play, arguments, name="experiments")


def play(asked: Asked) -> int:
    """Judge it, and keep it; returns the exit code."""
    if (kind := kind_of(asked.run)) not in EXPERIMENTS:
        raise RefusedError(f"{asked.run} is a run of {kind}, no experiment: `make check RUN={asked.run}`")
    code = judge_again(experiment(kind), asked.run)
    if asked.to is not None and (asked.run / RESULTS).is_file():
        keep(asked.run, asked.to)
    return code


if __name__ == "__main__":
    sys.exit(main())
