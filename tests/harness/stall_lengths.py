"""Lengths of stalls as a command line takes them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tests.harness.stall_sorts import LENGTHS_S

LONGEST_S = 150.0
"""The harness gives up a store that does not answer for 180 s."""


def lengths_of(text: str) -> tuple[float, ...]:
    """The lengths that `--stall-s` names, in seconds, with commas between. Raises ValueError."""
    lengths_s = tuple(float(word) for word in text.split(","))
    if not all(0.0 < one <= LONGEST_S for one in lengths_s):
        raise ValueError(f"--stall-s {text}: each length is more than 0 s and at most {LONGEST_S:.0f} s")
    return lengths_s


def named_lengths(lengths_s: Sequence[float]) -> dict[str, str]:
    """What a manifest tells of lengths that are not the usual ones."""
    return {} if tuple(lengths_s) == LENGTHS_S else {"stall_s": ",".join(f"{one:g}" for one in lengths_s)}


def add_stall_lengths(parser: argparse.ArgumentParser) -> None:
    """Have a command line set the lengths of stalls."""

    def lengths(text: str) -> tuple[float, ...]:
        try:
            return lengths_of(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    usual = ",".join(f"{one:g}" for one in LENGTHS_S)
    says = f"lengths of stalls, of which each comes once before one comes twice ({usual})"
    parser.add_argument("--stall-s", type=lengths, default=LENGTHS_S, metavar="S,S", help=says)
