"""Which calls go wrong, drawn from a seed: so that a run can be had again, whatever the order of its calls."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from tests.experiments.card_ledger.payments.book import Call, Charge

Trouble = Literal["late", "unavailable"]
"""`late`: it takes effect, and the answer is withheld; `unavailable`: 503, nothing took effect."""


@dataclass
class Mischief:
    """Trouble for the first call about a transaction, or about a version of a balance; later ones come through.

    Attributes:
        seed: draws.
        late: share of first calls, 0 to 1.
        unavailable: share of first calls.
    """

    seed: int
    late: float = 0.0
    unavailable: float = 0.0
    _calls: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Refuse shares that are none."""
        if min(self.late, self.unavailable) < 0 or self.late + self.unavailable > 1:
            raise ValueError(f"shares of calls are 0 to 1 in all, not {self.late} late and {self.unavailable} refused")

    def of(self, call: Call) -> Trouble | None:
        """What befalls this call; counts it."""
        about = self.note(call)
        if self._calls[about] > 1:
            return None
        draw = random.Random(f"{self.seed} {about}").random()
        if draw < self.late:
            return "late"
        return "unavailable" if draw < self.late + self.unavailable else None

    def note(self, call: Call) -> str:
        """Count a call; what it is about."""
        about = f"charge {call.transaction}" if isinstance(call, Charge) else f"set {call.card} {call.version}"
        self._calls[about] += 1
        return about
