"""`make mutants`: mechanical mutants of the product's core, and how many of them the unit tests kill, by module.

Exits with 0 when enough are killed in each module, 1 when not or when an explanation does not hold, 2 when nothing can
be said: bad input, or the tests fail without a mutant.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from infra.embedded.guard import report_interrupt, run_guarded
from infra.embedded.process import ServerError
from infra.toolchain.prepare import CHECKOUT, default_console
from tests.mutants import table, trial
from tests.mutants.explained import read_explanations
from tests.mutants.module import MutantsError, pick, read_modules
from tests.mutants.score import LEAST, Score, scored

OUT = CHECKOUT / "runs" / "mutants"


def main(arguments: Sequence[str] | None = None, player: trial.Play = trial.play) -> int:
    """Play what the command line asks for; return the exit code."""
    given = _parse(arguments)
    console = default_console()
    try:
        modules = read_modules()
        explanations = read_explanations(module.name for module in modules)
        chosen = pick(modules, given.only)
        given.out.mkdir(parents=True, exist_ok=True)
        outcomes = trial.go(chosen, given.out, console.say, player)
        scores = [scored(outcome, explanations) for outcome in outcomes]
        page = table.write(scores, explanations, given.out)
    except (MutantsError, ServerError, OSError) as error:
        sys.stderr.write(f"✗ {error}\n")
        return 2
    except (KeyboardInterrupt, SystemExit) as end:
        return report_interrupt(end, "modules that were played are kept, and the same command goes on with the next")
    sys.stdout.write(page.read_text())
    for said in _complaints(scores):
        console.say(f"✗ {said}")
    return int(not all(score.reached for score in scores))


def _complaints(scores: Sequence[Score]) -> list[str]:
    said = [f"{one.module}: {table.percent(one)} killed, {LEAST:.0%} demanded" for one in scores if one.share < LEAST]
    return said + [line for one in scores for line in one.wrong]


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.run", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", action="append", default=[], metavar="MODULE", help="one module; may be repeated")
    parser.add_argument("--out", type=Path, default=OUT, metavar="DIR", help="scores and outcomes (runs/mutants)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(run_guarded(main))
