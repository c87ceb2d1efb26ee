"""`python -m tests.bench CASE`: measurements as ratios of things in one run; raw samples below `runs/bench`."""

from __future__ import annotations

import argparse
import sys

from tests.bench import semantics


def main() -> int:
    """Run one case and print its table."""
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("case", choices=["semantics"])
    given.add_argument("--records", type=int, default=600_000)
    given.add_argument("--rounds", type=int, default=5)
    asked = given.parse_args()
    sys.stdout.write(semantics.measure(asked.records, asked.rounds) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
