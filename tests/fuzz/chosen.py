"""What `make fuzz` asks of the tests of Spark by their environment, and what they leave for it: counts of outcomes."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

SEED_VARIABLE, RECORDS_VARIABLE = "EFFECTIVELY_ONCE_FUZZ_SEED", "EFFECTIVELY_ONCE_FUZZ_RECORDS"
NOTES_VARIABLE = "EFFECTIVELY_ONCE_FUZZ_NOTES"
"""The folder that the tests leave their counts in."""
SEED = int(os.environ.get(SEED_VARIABLE, "0"))
RECORDS = int(os.environ.get(RECORDS_VARIABLE, "100000"))
_APART = 1_000_000


def drawn(number: int) -> int:
    """Return the seed of one of a test's streams; without a variable those of every run."""
    return SEED * _APART + number


def note(name: str, outcomes: Mapping[str, int]) -> None:
    """Leave how often each outcome came, of one pipeline, where `make fuzz` asks for it."""
    if folder := os.environ.get(NOTES_VARIABLE):
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / f"{name}.json").write_text(json.dumps(dict(outcomes)))


def noted(folder: Path) -> Counter[str]:
    """Return how often each outcome came, of all pipelines."""
    return sum((Counter(json.loads(path.read_bytes())) for path in sorted(folder.glob("*.json"))), Counter[str]())
