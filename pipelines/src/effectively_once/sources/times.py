"""Which times a topic takes records with: those that Spark and a calendar can hold, refused at the producer otherwise.

Spark's source turns a record's Kafka timestamp into microseconds before any transform sees it, and raises where it does
not fit. No version of a pipeline gets past such a record, so the broker must not take it.
"""

from __future__ import annotations

from collections.abc import Mapping

BEFORE, AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
BOUNDS = {BEFORE: "63000000000000", AFTER: "3600000"}
"""What `create` sets: two thousand years back, and an hour ahead as brokers do from 4.0 on."""
AHEAD_MAX_MS = 240_000_000_000_000
"""Beyond it, times leave the calendar's four digits of a year."""
_LONG_MAX = str(2**63 - 1)


def takes_any_time(settings: Mapping[str, str]) -> bool:
    """Whether a topic of these settings takes records that Spark's source cannot read."""
    if settings.get("message.timestamp.type") == "LogAppendTime":
        return False
    before, after = (int(settings.get(name, _LONG_MAX)) for name in (BEFORE, AFTER))
    return before > int(BOUNDS[BEFORE]) or after > AHEAD_MAX_MS
