"""`make bench CASE=`: measurements as ratios of things in one run; raw samples below `runs/bench`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from types import ModuleType

import typer

from infra.command_line import run
from infra.embedded.guard import run_guarded
from infra.options import add_command
from tests.bench import (
    against,
    catalog,
    checkpoint,
    dedup,
    flat,
    held,
    lake,
    optimisations,
    page,
    quick,
    race,
    restart,
    semantics,
    state,
)
from tests.bench.options import Asked

CASES: dict[str, ModuleType] = {
    "quick": quick,
    "page": page,
    "semantics": semantics,
    "against": against,
    "race": race,
    "dedup": dedup,
    "checkpoint": checkpoint,
    "restart": restart,
    "state": state,
    "held": held,
    "lake": lake,
    "optimisations": optimisations,
    "flat": flat,
    "catalog": catalog,
}
"""Each has a model of its options, `Asked`, and `measure`, which returns a table."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the case that the command line names; returns the exit code."""
    app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

    @app.callback()
    def _bench() -> None:
        """Measure; tables of ratios, raw samples and figures below runs/bench."""

    for name, case in CASES.items():
        add_command(app, case.Asked, partial(_measure, case), name=name)
    return run(app, arguments, "bench")


def _measure(case: ModuleType, asked: Asked) -> int:
    if text := case.measure(asked):
        sys.stdout.write(text + "\n")
    return 0


if __name__ == "__main__":
    # What is interrupted leaves no server behind, and no gigabyte of records.
    sys.exit(run_guarded(main))
