"""Options that a campaign has on either stack."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from tests.harness.conditions import add_conditions
from tests.harness.mixture import GROUPS

FAULTS, RECORDS = "all", 60_000


def add_campaign(parser: argparse.ArgumentParser, *, where: str, lengths: Mapping[str, tuple[float, str]]) -> None:
    """Have a command line set what is sent and struck, and under which conditions.

    Args:
        parser: of the command.
        where: what the seed's plan is printed for, beside the seed.
        lengths: of faults that last: the usual one in seconds, and what it is, by name.
    """
    faults = f"all, {', '.join(GROUPS)}, a number, or names with commas between, name*count (%(default)s)"
    parser.add_argument("--seed", type=int, help="what is sent and struck; drawn and printed when left out")
    parser.add_argument("--faults", default=FAULTS, help=faults)
    parser.add_argument("--records", type=int, default=RECORDS, help="of the seeded stream (%(default)s)")
    parser.add_argument("--plan", action="store_true", help=f"print the plan of the seed{where}, and do nothing")
    parser.add_argument("--no-controls", dest="controls", action="store_false", help="leave the negative controls out")
    for name, (usual_s, says) in lengths.items():
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, type=float, default=usual_s, metavar="S", help=f"{says} (%(default)s)")
    add_conditions(parser)
