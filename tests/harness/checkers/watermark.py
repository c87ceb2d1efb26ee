"""The watermark that is due: of everything that was accepted, or by the partition that is furthest behind."""

from __future__ import annotations

from tests.harness.evidence import EpochRecord


class Watermark:
    """What each epoch has to pin, computed from the records that the epochs before it have read.

    Who is idle, how far sources are, and where time is forced to, is taken at the declaration's word here.
    """

    def __init__(self) -> None:
        self._accepted: int | None = None
        self._shown: dict[tuple[str, int], int] = {}
        self._before: int | None = None

    def due(self, record: EpochRecord) -> int | None:
        """Return the watermark (ms since 1970) that an epoch must have; to be asked before its records are shown."""
        if record.keeps_watermark:
            return self._before
        if record.clock is None:
            return self._accepted
        before = max((at for at in (self._before, record.clock.forced_ms) if at is not None), default=None)
        awaited = [
            self._shown.get((topic, partition))
            for topic, partitions in record.ranges.items()
            for partition in partitions
            if partition not in record.clock.idle.get(topic, ())
        ]
        if not awaited:
            return before
        clock = record.clock
        awaited += [time for name, time in clock.sources.items() if name not in clock.released]
        if None in awaited:
            return before
        least = min(time for time in awaited if time is not None)
        return least if before is None else max(before, least)

    def show(self, record: EpochRecord, place: tuple[str, int], time_ms: int, *, accepted: bool) -> None:
        """Take note of a well-formed record of an epoch: a late one or a copy tells how far its partition has come."""
        if accepted:
            self._accepted = time_ms if self._accepted is None else max(self._accepted, time_ms)
        if record.clock is not None:
            self._shown[place] = max(time_ms, self._shown.get(place, time_ms))

    def end(self, record: EpochRecord) -> None:
        """Take note that all records of an epoch were shown."""
        self._before = record.watermark_ms
