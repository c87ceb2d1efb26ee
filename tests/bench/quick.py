"""The quick set: one table each for what can be said in a quarter of an hour; `make bench` without a case."""

from __future__ import annotations

import sys
import time
from types import ModuleType
from typing import Annotated

import typer
from pydantic import Field

from infra.toolchain.prepare import default_console
from tests.bench import checkpoint, dedup, flat, options, race, restart, semantics
from tests.bench.options import Rounds, among

SET: dict[str, tuple[ModuleType, Rounds]] = {
    "semantics": (semantics, semantics.Asked(records=400_000, bytes=[100], rounds=3)),
    "race": (
        race,
        race.Asked(
            records=600_000,
            bytes=[100],
            partitions=[4],
            batch_rows=50_000,
            outputs=["both"],
            arms=["ours", "streams", "flink-dedup", "spark"],
            rounds=1,
        ),
    ),
    "dedup": (dedup, dedup.Asked(live=1_000_000, rounds=3, steady=8)),
    "checkpoint": (checkpoint, checkpoint.Asked(batches=100, rounds=1)),
    "restart": (restart, restart.Asked(live=[1_000_000], rounds=3)),
    "flat": (flat, flat.Asked(ids=[1_000_000, 10_000_000], rounds=1)),
}


class Asked(options.Asked):
    """All but the largest, smaller: a quarter of an hour. `bench --help` names the single cases."""

    only: Annotated[list[str], among(SET), typer.Option(metavar="CASE...", help="Some of the set.")] = Field(
        default=[*SET]
    )


def measure(asked: Asked) -> str:
    """Run case after case; every table is printed when it is there, and how long it took."""
    console = default_console()
    for name in asked.only:
        module, given = SET[name]
        began = time.monotonic()
        text = module.measure(given)
        sys.stdout.write(f"# {name} {given.words}\n\n{text}\n\n")
        sys.stdout.flush()
        console.say(f"✓ {name} {time.monotonic() - began:.0f} s")
    return ""
