"""`make planted`: small faults of the product, one at a time in a copy of it; each has to be caught by a run.

Exits with 0 when every bug was caught, 1 when one was not, 2 when nothing can be said: bad input, or the correct
product does not pass.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from infra.embedded.guard import report_interrupt, run_guarded
from infra.options import ask
from infra.toolchain.prepare import CHECKOUT, default_console
from tests.planted import matrix
from tests.planted.garden import BUGS, Run, pick, read_garden
from tests.planted.season import Season

OUT = CHECKOUT / "runs" / "planted"


@dataclass(frozen=True)
class Asked:
    """Small faults of the product, one at a time in a copy of it; each has to be caught by a run.

    Exit code 0 when every bug was caught, 1 when one was not, 2 when nothing can be said.
    """

    only: Annotated[list[str] | None, typer.Option(metavar="NAME...", help="Areas, or area.name.")] = None
    run: Annotated[Run | None, typer.Option(help="Only bugs that such a run catches.")] = None
    out: Annotated[
        Path, typer.Option(metavar="DIR", file_okay=False, help="For matrix and plays.", show_default=False)
    ] = OUT
    garden: Annotated[
        Path, typer.Option(metavar="DIR", help="Other bugs than those kept here.", show_default=False)
    ] = BUGS
    listed: Annotated[bool, typer.Option("--list", help="Name the bugs, and play none.")] = False


def main(arguments: Sequence[str] | None = None) -> int:
    """Play what the command line asks for; return the exit code."""
    return ask(Asked, play, arguments, name="planted")


def play(asked: Asked) -> int:
    """Play bugs, and write the matrix of what caught them; return the exit code."""
    console = default_console()
    try:
        bugs = pick(read_garden(asked.garden), asked.only or [], asked.run)
        if asked.listed:
            for bug in bugs:
                sys.stdout.write(f"{bug.id:42} {bug.run:9} {bug.breaks}\n")
            return 0
        played = Season(asked.out, console.say).go(bugs)
        page = matrix.write(played, asked.out)
    except (KeyboardInterrupt, SystemExit) as end:
        return report_interrupt(end, "what was played is kept, and the same command goes on")
    sys.stdout.write(page.read_text())
    lost = [one.bug for one in played if not one.caught]
    console.say(f"{len(played) - len(lost)} of {len(played)} bugs are caught; {page}")
    if lost:
        console.say(f"✗ not caught: {', '.join(lost)}")
    return int(bool(lost))


if __name__ == "__main__":
    sys.exit(run_guarded(main))
