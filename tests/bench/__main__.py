"""`python -m tests.bench CASE`: measurements as ratios of things in one run; raw samples below `runs/bench`."""

from __future__ import annotations

import argparse
import sys

from infra.embedded.guard import run_guarded
from tests.bench import (
    against,
    catalog,
    checkpoint,
    dedup,
    flat,
    held,
    lake,
    optimisations,
    page,
    quick,
    race,
    restart,
    semantics,
    state,
)

CASES = {
    "quick": (quick, "all but the largest, smaller: a quarter of an hour"),
    "page": (page, "writes the docs' page of measurements from the newest ones"),
    "semantics": (semantics, "at least once on plain Spark, with the catalog, and exactly once"),
    "against": (against, "user_counts of this checkout and of an earlier commit: what a change costs"),
    "race": (race, "the packaged job against Kafka Streams, Flink and plain Spark: rows/s and CPU"),
    "dedup": (dedup, "the catalog against dropDuplicatesWithinWatermark"),
    "checkpoint": (checkpoint, "our checkpoint file manager against Spark's default one"),
    "restart": (restart, "driver killed to next published epoch, with many live ids"),
    "state": (state, "windows in the ledger's state or in Spark's, by number of keys"),
    "held": (held, "a held watermark: memory and epoch time by how long, and latency beside the rule of before"),
    "lake": (lake, "an Iceberg table beside a topic: rows/s, and how long the commit of an epoch takes"),
    "optimisations": (optimisations, "fusion and combiner lifting, on and off: plan, bytes shuffled, speed"),
    "flat": (flat, "the catalog's cost as live ids grow"),
    "catalog": (catalog, "speed and size of the dedup catalog in one process"),
}


def main() -> int:
    """Run one case; options are the case's own."""
    given = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    cases = given.add_subparsers(dest="case", required=True)
    for name, (module, told) in CASES.items():
        module.arguments(cases.add_parser(name, help=told))
    asked = given.parse_args()
    module, _ = CASES[asked.case]
    if text := module.measure(asked):
        sys.stdout.write(text + "\n")
    return 0


if __name__ == "__main__":
    # What is interrupted leaves no server behind, and no gigabyte of records.
    sys.exit(run_guarded(main))
