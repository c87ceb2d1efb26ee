"""`make planted`: small faults of the product, one at a time in a copy of it; each has to be caught by a run.

Exits with 0 when every bug was caught, 1 when one was not, 2 when nothing can be said: bad input, or the correct
product does not pass.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from infra.embedded.guard import report_interrupt, run_guarded
from infra.embedded.process import ServerError
from infra.toolchain.prepare import CHECKOUT, default_console
from tests.planted import matrix
from tests.planted.garden import BUGS, EMBEDDED, SERVERS, UNIT, GardenError, pick, read_garden
from tests.planted.season import Season

OUT = CHECKOUT / "runs" / "planted"


def main(arguments: Sequence[str] | None = None) -> int:
    """Play what the command line asks for; return the exit code."""
    given = _parse(arguments)
    console = default_console()
    try:
        bugs = pick(read_garden(given.garden), given.only, given.run)
        if given.list:
            for bug in bugs:
                sys.stdout.write(f"{bug.id:42} {bug.run:9} {bug.breaks}\n")
            return 0
        played = Season(given.out, console.say).go(bugs)
        page = matrix.write(played, given.out)
    except (GardenError, ServerError) as error:
        sys.stderr.write(f"✗ {error}\n")
        return 2
    except (KeyboardInterrupt, SystemExit) as end:
        return report_interrupt(end, "what was played is kept, and the same command goes on")
    sys.stdout.write(page.read_text())
    lost = [one.bug for one in played if not one.caught]
    console.say(f"{len(played) - len(lost)} of {len(played)} bugs are caught; {page}")
    if lost:
        console.say(f"✗ not caught: {', '.join(lost)}")
    return int(bool(lost))


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.planted.run", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", action="extend", default=[], metavar="NAME", help="areas, or area.name")
    parser.add_argument("--run", choices=(UNIT, SERVERS, EMBEDDED), help="only bugs that such a run catches")
    parser.add_argument("--out", type=Path, default=OUT, metavar="DIR", help="matrix and plays (runs/planted)")
    parser.add_argument("--garden", type=Path, default=BUGS, metavar="DIR", help="other bugs than those kept here")
    parser.add_argument("--list", action="store_true", help="name the bugs, and play none")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(run_guarded(main))
