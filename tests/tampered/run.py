"""`make tampered`: small alterations of a run's evidence, one at a time; the judge has to catch each.

Exits with 0 when each was caught or is listed as harmless, 1 when one was not, 2 when nothing can be said: bad input,
or a run that does not pass before it is altered.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from infra.embedded.guard import report_interrupt, run_guarded
from infra.errors import RefusedError
from infra.options import ask
from infra.toolchain.prepare import CHECKOUT, default_console
from tests.tampered import matrix, season

OUT = CHECKOUT / "runs" / "tampered"
SEED, COUNT = 1, 10_000


@dataclass(frozen=True)
class Asked:
    """Small alterations of a run's evidence, one at a time; the judge has to catch each.

    Exit code 0 when each was caught or is listed as harmless, 1 when one was not, 2 when nothing can be said.
    """

    seed: Annotated[int, typer.Option(min=0, help="Draws lines and values.")] = SEED
    count: Annotated[int, typer.Option(min=1, help="How many alterations.")] = COUNT
    only: Annotated[list[str] | None, typer.Option(metavar="NAME...", help="Files, or 'FILE: FIELD', with *.")] = None
    number: Annotated[int | None, typer.Option(min=0, help="Only this one of the plan, and what is said of it.")] = None
    out: Annotated[Path, typer.Option(metavar="DIR", file_okay=False, help="For the matrix.", show_default=False)] = OUT

    @property
    def words(self) -> str:
        """The options that plan the same alterations."""
        only = ["--only", *(f"'{one}'" for one in self.only)] if self.only else []
        return " ".join(["--seed", str(self.seed), "--count", str(self.count), *only])


def main(arguments: Sequence[str] | None = None) -> int:
    """Try what the command line asks for; return the exit code."""
    return ask(Asked, play, arguments, name="tampered")


def play(asked: Asked) -> int:
    """Try alterations, and write the matrix of what became of them; return the exit code."""
    console = default_console()
    try:
        tried = season.go(asked.seed, asked.count, asked.only or [], asked.number, console.say)
    except (KeyboardInterrupt, SystemExit) as end:
        return report_interrupt(end, "nothing is left of it, and the same command begins anew")
    if not tried:
        raise RefusedError("no alteration is of these: --only takes names of files, or 'FILE: FIELD', with *")
    lost = [one for one in tried if one.lost]
    if asked.number is not None:
        for one in tried:
            sys.stdout.write(f"{one.alteration}\n{', '.join(one.objecting) or 'nobody objected'}: {one.says}\n")
            sys.stdout.write(f"harmless: {one.harmless.why}\n" if one.harmless else "")
        return int(bool(lost))
    page = matrix.write(tried, asked.words, asked.out)
    sys.stdout.write(page.read_text())
    for entry in matrix.stale(tried) if len(tried) >= COUNT else []:
        console.say(f"stale: all alterations of this entry are caught: {entry}")
    console.say(f"{len(tried) - len(lost)} of {len(tried)} alterations are caught or harmless; {page}")
    if lost:
        console.say(f"✗ {len(lost)} are lost; see one again: {asked.words} --number {lost[0].alteration.number}")
    return int(bool(lost))


if __name__ == "__main__":
    sys.exit(run_guarded(main))
