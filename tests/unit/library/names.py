"""Names of user_counts' sinks."""

from __future__ import annotations

ACCEPTED, DEAD_LETTER, USER_COUNTS, GLOBAL_COUNTS = "accepted", "dead_letter", "user_counts", "global_counts"
KAFKA_SINKS = (ACCEPTED, DEAD_LETTER, USER_COUNTS)
