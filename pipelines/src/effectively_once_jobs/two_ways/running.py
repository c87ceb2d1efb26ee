"""The operator: per user a running count and sum, and every record passed on with what they came to added.

What it passes on depends on every record of the user before, in their order. So one that an operator lost, counted
twice or took out of order shows in every later record of that user, in the output of the last operator.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace

MODULUS = 2_147_483_647
"""Amounts stay below it, however many operators add to them: a prime, so that no error is divided away."""

Kept = tuple[int, int]
"""What is kept of a user: how many records, and the sum of their amounts."""
NOTHING: Kept = (0, 0)


@dataclass(frozen=True, slots=True)
class Record:
    """A record on its way; only its amount changes.

    Attributes:
        id: attached by the sender, and the same after every operator.
        user: key of the state; all records of a user are in one partition of every topic.
        event_time_ms: ms since 1970.
        amount: from 0 to `MODULUS` - 1.

    """

    id: str
    user: str
    event_time_ms: int
    amount: int

    def encode(self) -> bytes:
        """Value of a record of a topic between operators."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes) -> Record:
        """Read what `encode` wrote, or the sender: there the amount is the text of the payload."""
        row = json.loads(value)
        amount = row["amount"] if "amount" in row else int(row["payload"])
        return cls(row["id"], row["user"], row["event_time_ms"], amount)


def advance(kept: Kept, amount: int) -> tuple[Kept, int]:
    """Count a record of a user: what is kept now, and the amount that is passed on."""
    count, total = kept[0] + 1, (kept[1] + amount) % MODULUS
    return (count, total), (amount + total + count) % MODULUS


def pass_on(records: Iterable[Record], kept: Mapping[str, Kept]) -> tuple[list[Record], dict[str, Kept]]:
    """Take records in their order: what is passed on, and what is kept now of the users among them."""
    changed: dict[str, Kept] = {}
    found = []
    for record in records:
        before = changed.get(record.user, kept.get(record.user, NOTHING))
        changed[record.user], amount = advance(before, record.amount)
        found.append(replace(record, amount=amount))
    return found, changed
