"""`make tampered`: small alterations of a run's evidence, one at a time; the judge has to catch each.

Exits with 0 when each was caught or is listed as harmless, 1 when one was not, 2 when nothing can be said: bad input,
or a run that does not pass before it is altered.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from infra.embedded.guard import guarded, interrupted
from infra.toolchain.prepare import CHECKOUT, default_console
from tests.tampered import matrix, season
from tests.tampered.trial import TrialError

OUT = CHECKOUT / "runs" / "tampered"
SEED, COUNT = 1, 10_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Try what the command line asks for; return the exit code."""
    given = _given(arguments)
    console = default_console()
    planned = " ".join(
        [
            "--seed",
            str(given.seed),
            "--count",
            str(given.count),
            *(["--only", *(f"'{one}'" for one in given.only)] if given.only else []),
        ]
    )
    try:
        tried = season.go(given.seed, given.count, given.only, given.number, console.say)
    except TrialError as error:
        sys.stderr.write(f"✗ {error}\n")
        return 2
    except (KeyboardInterrupt, SystemExit) as end:
        return interrupted(end, "nothing is left of it, and the same command begins anew")
    if not tried:
        sys.stderr.write("✗ no alteration is of these: --only takes names of files, or 'FILE: FIELD', with *\n")
        return 2
    lost = [one for one in tried if one.lost]
    if given.number is not None:
        for one in tried:
            sys.stdout.write(f"{one.alteration}\n{', '.join(one.objecting) or 'nobody objected'}: {one.says}\n")
            sys.stdout.write(f"harmless: {one.harmless.why}\n" if one.harmless else "")
        return int(bool(lost))
    page = matrix.write(tried, planned, given.out)
    sys.stdout.write(page.read_text())
    for entry in matrix.stale(tried) if len(tried) >= COUNT else []:
        console.say(f"stale: all alterations of this entry are caught: {entry}")
    console.say(f"{len(tried) - len(lost)} of {len(tried)} alterations are caught or harmless; {page}")
    if lost:
        console.say(f"✗ {len(lost)} are lost; see one again: {planned} --number {lost[0].alteration.number}")
    return int(bool(lost))


def _given(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.tampered.run", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--seed", type=_natural, default=SEED, help=f"draws lines and values ({SEED})")
    parser.add_argument("--count", type=_positive, default=COUNT, help=f"how many alterations ({COUNT})")
    parser.add_argument(
        "--only", nargs="+", action="extend", default=[], metavar="NAME", help="files, or 'FILE: FIELD', with *"
    )
    parser.add_argument("--number", type=_natural, help="only this one of the plan, and what is said of it")
    parser.add_argument("--out", type=_folder, default=OUT, metavar="DIR", help="for the matrix (runs/tampered)")
    return parser.parse_args(arguments)


def _natural(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of 0 or more")
    return int(text)


def _positive(text: str) -> int:
    if _natural(text) == 0:
        raise argparse.ArgumentTypeError("0 alterations show nothing; name a number of 1 or more")
    return int(text)


def _folder(text: str) -> Path:
    path = Path(text)
    if path.exists() and not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a file; name a folder")
    return path


if __name__ == "__main__":
    sys.exit(guarded(main))
