"""Parameters of which `make test` plays some and `make test-core` all."""

from __future__ import annotations

from collections.abc import Iterable

import pytest


def thinned(values: Iterable[object], every: int = 3) -> list[object]:
    """Return parameters: the first of every so many is in each run, the others are deep."""
    return [
        pytest.param(value, marks=[pytest.mark.deep] if number % every else []) for number, value in enumerate(values)
    ]
