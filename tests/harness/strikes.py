"""Strikes as people read them, and one more of them drawn from a seed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence

from tests.harness.mixture import EMBEDDED, name_of
from tests.harness.schedule import Strike

KILLS_OF_THE_DEMO = ("executors-kill", "driver-kill", "worker-kill", "broker-kill", "store-kill", "executor-stall")
"""Those of the embedded stack that cost a demo no more than some seconds; a stall is one of SHORT_S."""


def one_of(names: Sequence[str], seed: int) -> Strike:
    """A sort of the embedded stack, drawn from the seed."""
    return EMBEDDED[random.Random(f"one more of {seed}").choice(names)]


def told(strikes: Iterable[Strike]) -> str:
    """How many of which, in one line."""
    sorts = Counter(name_of(one) for one in strikes)
    return ", ".join(f"{count} {name}" for name, count in sorted(sorts.items()))
