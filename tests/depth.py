"""How deep a test explores: all of it, or the slice that `make test` has time for."""

from __future__ import annotations

import os

SLICED = "EFFECTIVELY_ONCE_TEST_SLICE"
"""Set by `make test`; without it, as in CI, among planted bugs and in a call of pytest, all is explored."""
SHARE = 5
FEWEST = 5


def examples(full: int) -> int:
    """Return how many examples a property is drawn: `full`, or a fifth of them in `make test`."""
    return max(full // SHARE, min(full, FEWEST)) if os.environ.get(SLICED) else full
