"""What one run saw of a planted bug."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

How = Literal["caught", "passed", "unknown", "time", "memory"]
"""caught: a test or an oracle refuted it. unknown: a judge could not tell. time, memory: the run met that limit, which
may have other reasons."""


class Sighting(BaseModel):
    """One run, of one seed.

    Attributes:
        by: the test or the oracle that refuted it, or the reason why none did.
        line: the assertion that failed, or the record that shows it.
        draws: whether the outcome may depend on the seed.

    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: int
    how: How
    by: str = ""
    line: str = ""
    draws: bool = False
    seconds: float = 0.0
