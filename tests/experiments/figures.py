"""Parts of results that arms of every sort have: latencies, and sentences that hold or not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel, ConfigDict

from tests.harness.results import Verdict


class Model(BaseModel):
    """A part of the results."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Latency(Model):
    """Milliseconds from a record's sending to the commit of its first row, over the events that have one."""

    events: int
    p50_ms: float
    p90_ms: float
    p99_ms: float
    max_ms: float


def latency(took_ms: Sequence[float]) -> Latency | None:
    """Sum up latencies; None where there are none."""
    if not took_ms:
        return None
    p50, p90, p99, most = (round(float(one), 1) for one in np.percentile(took_ms, [50, 90, 99, 100]))
    return Latency(events=len(took_ms), p50_ms=p50, p90_ms=p90, p99_ms=p99, max_ms=most)


class Said(Model):
    """A sentence that holds or not.

    Attributes:
        promise: whether it is one that the arm makes; otherwise a guard: without it the run shows nothing.

    """

    says: str
    holds: bool
    found: str
    promise: bool = True


def verdict(said: Sequence[Said], *, whole: bool) -> Verdict:
    """Fail for a promise that does not hold; unknown for a guard that does not, or where not all was played."""
    if any(one.promise and not one.holds for one in said):
        return Verdict.FAIL
    return Verdict.PASS if whole and all(one.holds for one in said) else Verdict.UNKNOWN
