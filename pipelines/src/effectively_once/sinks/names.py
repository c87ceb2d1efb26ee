"""Names of the sinks: the last part of topics and folders, and the keys of an epoch's record."""

from __future__ import annotations

ACCEPTED, DEAD_LETTER, USER_COUNTS, GLOBAL_COUNTS = "accepted", "dead_letter", "user_counts", "global_counts"
KAFKA_SINKS = (ACCEPTED, DEAD_LETTER, USER_COUNTS)
"""Each has a topic of rows and one of progress marks; `global_counts` is kept in the object store."""
