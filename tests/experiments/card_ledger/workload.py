"""Card transactions drawn from a seed, and what they come to in plain Python."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

CARDS, CARD, TIME = 40, "card", "event_time_ms"
BEGAN_MS, APART_MS, BACK = 1_700_000_000_000, 100, 20
FAR_FUTURE_MS = 4_000_000_000_000
NOBODYS_CARD = "card-nobody"
SHARES = (0.06, 0.01, 0.01, 0.01, 0.005)
"""Of the records: copies of one before, its id with another amount, an unknown card, a negative amount, a far time."""
COUNTS = ("accepted", "duplicate", "late", "malformed")
"""What becomes of a record; nothing here is late."""


def records(seed: int, count: int) -> Iterator[dict[str, Any]]:
    """Transactions: `id`, `card`, `amount_cents`, `event_time_ms`. Most are good; the others are bad input."""
    rng = random.Random(f"cards {seed}")
    sent: list[dict[str, Any]] = []
    for n in range(count):
        row = _change(_transaction(n, rng), sent[-BACK:], rng)
        sent.append(row)
        yield row


def write(path: Path, seed: int, count: int) -> None:
    """Write them as a file, a record a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in records(seed, count)))


@dataclass(frozen=True)
class Due:
    """What has to take effect.

    Attributes:
        charges: transaction -> card and amount.
        balances: card -> what its charges come to; of every card.
        records: what becomes of all records that were sent, as an epoch counts them.
    """

    charges: Mapping[str, tuple[str, int]]
    balances: Mapping[str, int]
    records: Mapping[str, int]

    @property
    def per_card(self) -> Counter[str]:
        """How many transactions each card has."""
        return Counter(card for card, _ in self.charges.values())


def due(rows: Iterable[Mapping[str, Any]], cards: Iterable[str], now_ms: int) -> Due:
    """Recompute from what was sent; of two records with one id the first counts.

    Args:
        rows: transactions, of each card in the order of its partition.
        cards: those that there are.
        now_ms: when they were sent; a time of a day and more after it is refused.
    """
    charges: dict[str, tuple[str, int]] = {}
    balances = dict.fromkeys(cards, 0)
    seen: set[str] = set()
    counts = dict.fromkeys(COUNTS, 0)
    for row in rows:
        amount, card, id_ = row["amount_cents"], row[CARD], row["id"]
        bad = amount < 1 or row[TIME] > now_ms + 24 * 3_600_000
        counts["malformed" if bad else "duplicate" if id_ in seen else "accepted"] += 1
        if bad or id_ in seen:
            continue
        seen.add(id_)
        if card in balances:
            charges[id_] = (card, amount)
            balances[card] += amount
    return Due(charges, balances, counts)


def _transaction(n: int, rng: random.Random) -> dict[str, Any]:
    return {
        "id": f"t{n:06d}",
        CARD: f"card-{rng.randrange(CARDS):04d}",
        "amount_cents": rng.randrange(1, 20_000),
        TIME: BEGAN_MS + APART_MS * n,
    }


def _change(row: dict[str, Any], before: Sequence[dict[str, Any]], rng: random.Random) -> dict[str, Any]:
    """The transaction, or one of the unusual records in its place."""
    earlier = rng.choice(before) if before else row
    others = (
        earlier,
        {**earlier, "amount_cents": abs(earlier["amount_cents"]) + 1},
        {**row, CARD: NOBODYS_CARD},
        {**row, "amount_cents": -5},
        {**row, TIME: FAR_FUTURE_MS},
    )
    return rng.choices((*others, row), (*SHARES, 1 - sum(SHARES)))[0]
