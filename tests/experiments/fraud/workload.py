"""The transactions that are sent, by seed: mostly good ones, some frauds among them, and bad input."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import orjson

CARDS, BACK = 200, 20
FAR_MS = 3 * 24 * 3_600_000
BAD = {"duplicate": 0.02, "unknown_card": 0.01, "bad_amount": 0.01, "ahead": 0.01, "not_json": 0.01}
"""Shares of what is no transaction, by the reason that it has to get."""
FRAUDS = 0.04


def cards() -> list[str]:
    """Every card that there is."""
    return [f"card-{number:04d}" for number in range(CARDS)]


def records(seed: int, began_ms: int, due_ms: Sequence[float]) -> Iterator[tuple[str, bytes]]:
    """Key and value of each record.

    Args:
        seed: draws them.
        began_ms: when the first one is due.
        due_ms: when each is due after that; an event's time is that of its sending.
    """
    rng = random.Random(f"fraud {seed}")
    homes = [(rng.randrange(500_000), rng.randrange(500_000)) for _ in range(CARDS)]
    before: list[dict[str, Any]] = []
    for number, due in enumerate(due_ms):
        row = _transaction(rng, number, began_ms + int(due), homes)
        kind = rng.choices([*BAD, ""], [*BAD.values(), 1 - sum(BAD.values())])[0]
        earlier = rng.choice(before[-BACK:]) if before else row
        if kind == "not_json":
            yield row["card"], orjson.dumps(row)[:-7]
            continue
        changed = {
            "duplicate": {**earlier, "amount_cents": earlier["amount_cents"] + 1},
            "unknown_card": {**row, "card": "card-nobody"},
            "bad_amount": {**row, "amount_cents": -5},
            "ahead": {**row, "event_time_ms": began_ms + FAR_MS},
        }.get(kind, row)
        if not kind:
            before.append(row)
        yield changed["card"], orjson.dumps(changed)


def _transaction(rng: random.Random, number: int, at_ms: int, homes: Sequence[tuple[int, int]]) -> dict[str, Any]:
    card = rng.randrange(CARDS)
    x, y = homes[card]
    amount, away = rng.randrange(500, 6_000), rng.randrange(-2_000, 2_000)
    if rng.random() < FRAUDS:
        amount, away = amount * rng.randrange(4, 20), rng.randrange(50_000, 400_000)
    return {
        "id": f"t{number:07d}",
        "card": f"card-{card:04d}",
        "amount_cents": amount,
        "event_time_ms": at_ms,
        "x_m": x + away,
        "y_m": y - away,
    }
