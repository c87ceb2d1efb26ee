"""`make mutants`: mechanical mutants of the product's core, and how many of them the unit tests kill, by module.

Exits with 0 when enough are killed in each module, 1 when not or when an explanation does not hold, 2 when nothing can
be said: bad input, or the tests fail without a mutant.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from infra.embedded.guard import report_interrupt, run_guarded
from infra.errors import RefusedError
from infra.options import ask
from infra.toolchain.prepare import CHECKOUT, default_console
from tests.mutants import table, trial
from tests.mutants.explained import read_explanations
from tests.mutants.module import pick, read_modules
from tests.mutants.score import LEAST, Score, scored

OUT = CHECKOUT / "runs" / "mutants"


@dataclass(frozen=True)
class Asked:
    """Mechanical mutants of the product's core, and how many of them the unit tests kill, by module.

    Exit code 0 when enough are killed in each module, 1 when not, 2 when nothing can be said.
    """

    only: Annotated[list[str] | None, typer.Option(metavar="MODULE...", help="Some of the modules.")] = None
    out: Annotated[
        Path, typer.Option(metavar="DIR", file_okay=False, help="For scores and outcomes.", show_default=False)
    ] = OUT


def main(arguments: Sequence[str] | None = None, player: trial.Play = trial.play) -> int:
    """Play what the command line asks for; return the exit code."""
    return ask(Asked, partial(play, player=player), arguments, name="mutants")


def play(asked: Asked, player: trial.Play) -> int:
    """Play mutants, and write the table of what killed them; return the exit code."""
    console = default_console()
    try:
        modules = read_modules()
        explanations = read_explanations(module.name for module in modules)
        chosen = pick(modules, asked.only or [])
        asked.out.mkdir(parents=True, exist_ok=True)
        outcomes = trial.go(chosen, asked.out, console.say, player)
        scores = [scored(outcome, explanations) for outcome in outcomes]
        page = table.write(scores, explanations, asked.out)
    except OSError as error:
        raise RefusedError(f"{error}; --out names where scores and outcomes go") from error
    except (KeyboardInterrupt, SystemExit) as end:
        return report_interrupt(end, "modules that were played are kept, and the same command goes on with the next")
    sys.stdout.write(page.read_text())
    for said in _complaints(scores):
        console.say(f"✗ {said}")
    return int(not all(score.reached for score in scores))


def _complaints(scores: Sequence[Score]) -> list[str]:
    said = [f"{one.module}: {table.percent(one)} killed, {LEAST:.0%} demanded" for one in scores if one.share < LEAST]
    return said + [line for one in scores for line in one.wrong]


if __name__ == "__main__":
    sys.exit(run_guarded(main))
