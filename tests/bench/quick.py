"""The quick set: one table each for what can be said in a quarter of an hour; `make bench` without a case."""

from __future__ import annotations

import argparse
import sys
import time
from types import ModuleType

from infra.toolchain.prepare import default_console
from tests.bench import checkpoint, dedup, flat, race, restart, semantics

SET: dict[str, tuple[ModuleType, list[str]]] = {
    "semantics": (semantics, ["--records", "400000", "--bytes", "100", "--rounds", "3"]),
    "race": (
        race,
        [
            *("--records", "600000", "--bytes", "100", "--partitions", "4", "--batch-rows", "50000"),
            *("--outputs", "both", "--arms", "ours", "streams", "flink-dedup", "spark", "--rounds", "1"),
        ],
    ),
    "dedup": (dedup, ["--live", "1000000", "--rounds", "3", "--steady", "8"]),
    "checkpoint": (checkpoint, ["--batches", "100", "--rounds", "1"]),
    "restart": (restart, ["--live", "1000000", "--rounds", "3"]),
    "flat": (flat, ["--ids", "1000000", "10000000", "--rounds", "1"]),
}


def arguments(given: argparse.ArgumentParser) -> None:
    """Add the options of this case."""
    given.add_argument("--only", nargs="+", choices=list(SET), default=list(SET), help="some of the set")


def measure(asked: argparse.Namespace) -> str:
    """Run case after case; every table is printed when it is there, and how long it took."""
    console = default_console()
    for name in asked.only:
        module, words = SET[name]
        given = argparse.ArgumentParser()
        module.arguments(given)
        began = time.monotonic()
        text = module.measure(given.parse_args(words))
        sys.stdout.write(f"# {name} {' '.join(words)}\n\n{text}\n\n")
        sys.stdout.flush()
        console.say(f"✓ {name} {time.monotonic() - began:.0f} s")
    return ""
