"""What a record means, and which records are no transaction.

A record is JSON: `{"id": text, "card": text, "amount_cents": whole number from 1, "event_time_ms": ms since 1970,
"x_m": whole number, "y_m": whole number}`; the last two say where it was made, in metres east and north of a point that
is the same for all. Records of a card have the card as key, so that one partition has them in their order.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import orjson

Place = tuple[int, int]
"""Partition and offset."""
AHEAD_MS = 24 * 3_600_000
AMOUNT_MAX, METRES_MAX, TIME_MAX = 10**12, 10**8, 10**15
NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
"""Ids and cards: what goes into an address and a table as it is."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction.

    Attributes:
        place: where it stands in the topic.
        arrived_ms: when the broker took it, by the broker's clock.

    """

    place: Place
    arrived_ms: int
    id: str
    card: str
    amount_cents: int
    event_time_ms: int
    x_m: int
    y_m: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """A record that gets no decision, and why; `id` is None where it has none that could be asked for."""

    place: Place
    arrived_ms: int
    id: str | None
    reason: str


def parse(value: bytes | None, place: Place, arrived_ms: int) -> Transaction | Refusal:
    """Read a record. A pure function of the topic: whoever reads it comes to the same."""
    try:
        fields: Any = orjson.loads(value or b"")
    except orjson.JSONDecodeError:
        fields = None
    if not isinstance(fields, dict):
        return Refusal(place, arrived_ms, None, "not_json")
    id_ = _name(fields.get("id"))
    reason = _wrong(fields, arrived_ms) if id_ else "bad_id"
    if reason or id_ is None:
        return Refusal(place, arrived_ms, id_, reason)
    return Transaction(
        place,
        arrived_ms,
        id_,
        fields["card"],
        fields["amount_cents"],
        fields["event_time_ms"],
        fields["x_m"],
        fields["y_m"],
    )


def _wrong(fields: dict[str, Any], arrived_ms: int) -> str:
    """Why it is no transaction; empty where it is one."""
    time_ms: Any = fields.get("event_time_ms")
    if _name(fields.get("card")) is None:
        return "bad_card"
    if not _whole(fields.get("amount_cents"), 1, AMOUNT_MAX):
        return "bad_amount"
    if not _whole(time_ms, 0, TIME_MAX):
        return "bad_time"
    if time_ms > arrived_ms + AHEAD_MS:
        return "ahead"
    if not all(_whole(fields.get(name), -METRES_MAX, METRES_MAX) for name in ("x_m", "y_m")):
        return "bad_place"
    return ""


def _name(value: object) -> str | None:
    return value if isinstance(value, str) and NAME.fullmatch(value) else None


def _whole(value: object, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most
