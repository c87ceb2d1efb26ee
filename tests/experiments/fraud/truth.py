"""What has to be decided about each record, recomputed from the sends alone, in the plainest way.

It shares nothing with the job: a defect of the job's analyzers is not repeated here.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

DAY_MS = 86_400_000


@dataclass
class Due:
    """What becomes of a record: `reason` for one that is refused, else the points that each analyzer gives."""

    id: str | None
    place: tuple[int, int]
    arrived_ms: int
    reason: str = ""
    points: dict[str, int] = field(default_factory=dict)


def due(sends: Iterable[Mapping[str, Any]], cards: Iterable[str], windows_ms: Mapping[str, int]) -> list[Due]:
    """Recompute all of them.

    Args:
        sends: rows of `sent.jsonl`: partition, offset, arrived_ms, payload.
        cards: those that there are.
        windows_ms: analyzer -> how far back it looks.
    """
    known, first = set(cards), set[str]()
    histories: dict[tuple[str, str], list[tuple[int, dict[str, Any], bool]]] = defaultdict(list)
    found = []
    for send in sorted(sends, key=lambda row: (row["partition"], row["offset"])):
        place, at = (send["partition"], send["offset"]), send["arrived_ms"]
        try:
            row = json.loads(send["payload"])
        except ValueError:
            found.append(Due(None, place, at, "not_json"))
            continue
        reason = "bad_amount" if row["amount_cents"] < 1 else "ahead" if row["event_time_ms"] > at + DAY_MS else ""
        one = Due(row["id"], place, at, reason or ("unknown_card" if row["card"] not in known else ""))
        found.append(one)
        if one.reason:
            continue
        if row["id"] in first:
            one.reason = "duplicate"
        first.add(row["id"])
        for name, window_ms in windows_ms.items():
            history = histories[name, row["card"]]
            recent = [(other, counts) for then, other, counts in history if then > at - window_ms]
            counts = all(other["id"] != row["id"] for other, _ in recent)
            history.append((at, row, counts))
            if counts and not one.reason:
                one.points[name] = points(name, [other for other, counted in recent if counted], row)
    return found


def points(name: str, before: list[dict[str, Any]], row: Mapping[str, Any]) -> int:
    """What an analyzer gives to a transaction after those before it."""
    raw = 0
    if name == "average" and len(before) >= 3:
        mean = max(1, sum(other["amount_cents"] for other in before) // len(before))
        raw = (row["amount_cents"] * 100 // mean - 200) // 8
    if name == "count":
        raw = 20 * (len(before) - 5)
    if name == "proximity" and before:
        last = before[-1]
        metres = math.isqrt((row["x_m"] - last["x_m"]) ** 2 + (row["y_m"] - last["y_m"]) ** 2)
        apart_ms = max(1000, abs(row["event_time_ms"] - last["event_time_ms"]))
        raw = (metres * 3600 // apart_ms - 200) // 8
    return sorted((0, raw, 100))[1]


def outcome(given: Mapping[str, int]) -> str:
    """What points come to."""
    if not given:
        return "review"
    total = sum(given.values())
    return "declined" if total >= 100 else "review" if total >= 50 else "approved"
