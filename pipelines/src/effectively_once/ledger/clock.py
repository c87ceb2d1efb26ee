"""The clock of an epoch: how far each partition of the input, and each source, has come in event time (R6)."""

from __future__ import annotations

from pydantic import Field

from effectively_once.ledger.record import Sparse

Times = dict[str, dict[str, int]]
"""Topic -> partition -> largest event time (ms since 1970) that it has shown."""


def latest(times: Times, more: Times) -> Times:
    """Return the later of both for each partition."""
    merged = {topic: dict(known) for topic, known in times.items()}
    for topic, found in more.items():
        known = merged.setdefault(topic, {})
        for partition, time in found.items():
            known[partition] = max(time, known.get(partition, time))
    return merged


class Clock(Sparse):
    """How far each partition of the input has come in event time, as an epoch pins it (R6).

    Attributes:
        shown: by epochs before this one. A partition that has shown no time is not in it.
        idle: topic -> partitions that nobody waits for: all of them was read, and nothing came for `idle_ms`.
        sources: each that is registered -> event time before which epochs before this one have read all of its records;
            None of one that has not said how far it is.
        released: sources that nobody waits for: for `hold_max_ms` they have said no later time, and none of theirs was
            read.
        forced_ms: who is behind this time is not waited for: more was held for them than a shard may hold
            (`held_rows_max`). None of nearly all epochs.

    """

    OPTIONAL = frozenset({"sources", "released", "forced_ms"})

    shown: Times = Field(default_factory=dict)
    idle: dict[str, list[str]] = Field(default_factory=dict)
    sources: dict[str, int | None] = Field(default_factory=dict)
    released: tuple[str, ...] = ()
    forced_ms: int | None = None

    @property
    def front_ms(self) -> int | None:
        """How far the partition has come that is furthest ahead, of those that are not idle; None where none shows."""
        times = (
            time
            for topic, partitions in self.shown.items()
            for partition, time in partitions.items()
            if partition not in self.idle.get(topic, [])
        )
        return max(times, default=None)
