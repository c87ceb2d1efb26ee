"""Lengths of stalls and cuts as a command line takes them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tests.harness import cut_sorts, stall_sorts

LONGEST_S = 150.0
"""The harness gives up a store that does not answer for 180 s."""


def lengths_of(text: str, option: str = "--stall-s") -> tuple[float, ...]:
    """The lengths that an option names, in seconds, with commas between. Raises ValueError."""
    lengths_s = tuple(float(word) for word in text.split(","))
    if not all(0.0 < one <= LONGEST_S for one in lengths_s):
        raise ValueError(f"{option} {text}: each length is more than 0 s and at most {LONGEST_S:.0f} s")
    return lengths_s


def named_lengths(
    stalls_s: Sequence[float] = stall_sorts.LENGTHS_S, cuts_s: Sequence[float] = cut_sorts.LENGTHS_S
) -> dict[str, str]:
    """What a manifest tells of lengths of stalls and cuts that are not the usual ones."""
    usual = {"stall_s": (stalls_s, stall_sorts.LENGTHS_S), "cut_s": (cuts_s, cut_sorts.LENGTHS_S)}
    return {name: ",".join(f"{one:g}" for one in asked) for name, (asked, own) in usual.items() if tuple(asked) != own}


def add_stall_lengths(parser: argparse.ArgumentParser) -> None:
    """Have a command line set the lengths of stalls."""
    _add(parser, "--stall-s", "stalls", stall_sorts.LENGTHS_S)


def add_cut_lengths(parser: argparse.ArgumentParser) -> None:
    """Have a command line set the lengths of cuts."""
    _add(parser, "--cut-s", "cuts", cut_sorts.LENGTHS_S)


def _add(parser: argparse.ArgumentParser, option: str, what: str, default: Sequence[float]) -> None:
    def lengths(text: str) -> tuple[float, ...]:
        try:
            return lengths_of(text, option)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    usual = ",".join(f"{one:g}" for one in default)
    says = f"lengths of {what}, of which each comes once before one comes twice ({usual})"
    parser.add_argument(option, type=lengths, default=default, metavar="S,S", help=says)
