"""Options that several cases have, and the order in which the arms of a round take turns."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.bench.place import MASTERS


def add_common(
    given: argparse.ArgumentParser, *, rounds: int = 5, master: str | None = None, arms: Sequence[str] = ()
) -> None:
    """Add `--rounds` and `--resume`; `--master` of Spark and `--arms` where a case has them."""
    given.add_argument("--rounds", type=int, default=rounds)
    if master is not None:
        given.add_argument("--master", choices=sorted(MASTERS), default=master, help="of Spark")
    if arms:
        given.add_argument("--arms", nargs="+", choices=list(arms), default=list(arms))
    given.add_argument("--resume", type=Path, default=None, help="folder of a measurement that was interrupted")


def pick(asked: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Return some of the options, as settings of a measurement."""
    return {name: getattr(asked, name) for name in names}


def in_turn(arms: Sequence[str], number: int) -> list[str]:
    """Order the arms of a round: each is the first one as often as another."""
    turn = number % len(arms)
    return [*arms[turn:], *arms[:turn]]
