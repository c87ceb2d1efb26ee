"""`python -m tests.bench CASE`: measurements as ratios of things in one run; raw samples below `runs/bench`."""

from __future__ import annotations

import argparse
import sys

from tests.bench import catalog, semantics


def main() -> int:
    """Run one case; options are the case's own."""
    given = argparse.ArgumentParser(description=__doc__)
    cases = given.add_subparsers(dest="case", required=True)
    measured = cases.add_parser("semantics", help="at least once on plain Spark, with the catalog, and exactly once")
    measured.add_argument("--records", type=int, default=600_000)
    measured.add_argument("--rounds", type=int, default=5)
    catalog.arguments(cases.add_parser("catalog", help="speed and size of the dedup catalog in one process"))
    asked = given.parse_args()
    if asked.case == "catalog":
        catalog.measure(asked)
    else:
        sys.stdout.write(semantics.measure(asked.records, asked.rounds) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
