"""How deep a test explores: all of it, or the slice that `make test` has time for."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest
from _pytest.mark.structures import ParameterSet

SLICED = "EFFECTIVELY_ONCE_TEST_SLICE"
"""Set by `make test`; without it, as in CI, among planted bugs and in a call of pytest, all is explored."""
SHARE = 5
FEWEST = 5


def examples(full: int) -> int:
    """Return how many examples a property is drawn: `full`, or a fifth of them in `make test`."""
    return max(full // SHARE, min(full, FEWEST)) if os.environ.get(SLICED) else full


def thinned(values: Iterable[object], every: int = 3) -> list[ParameterSet]:
    """Return parameters: the first of every so many is in each run, the others are deep."""
    return [
        pytest.param(value, marks=[pytest.mark.deep] if number % every else []) for number, value in enumerate(values)
    ]
