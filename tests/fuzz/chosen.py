"""What `make fuzz` asks of the tests of Spark, by their environment: how many records, and of which seed."""

from __future__ import annotations

import os

SEED_VARIABLE, RECORDS_VARIABLE = "EFFECTIVELY_ONCE_FUZZ_SEED", "EFFECTIVELY_ONCE_FUZZ_RECORDS"
SEED = int(os.environ.get(SEED_VARIABLE, "0"))
RECORDS = int(os.environ.get(RECORDS_VARIABLE, "100000"))
_APART = 1_000_000


def drawn(number: int) -> int:
    """Return the seed of one of a test's streams; without a variable those of every run."""
    return SEED * _APART + number
