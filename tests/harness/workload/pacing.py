"""How far the sender may run ahead of the chain, so that a record in time can never become late."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from tests.harness.workload.errors import InputError


@dataclass(frozen=True, slots=True)
class Pace:
    """Limits of the sender, in ms of event time and in records.

    `jitter_ms`: how far a record in time may lie behind the largest event time sent before it. `horizon_ms`: how far
    the event time sent may run ahead of the oldest record no declared epoch holds; None paces by records only (unsorted
    files, whose allowed lateness covers their disorder). Refused unless jitter + horizon < lateness.
    """

    lateness_ms: int = 120_000
    jitter_ms: int = 20_000
    horizon_ms: int | None = 80_000
    max_outstanding: int = 50_000

    def __post_init__(self) -> None:
        """Refuse limits under which a record in time could be late."""
        if self.max_outstanding < 1:
            raise InputError(f"max_outstanding is {self.max_outstanding}: the sender needs at least 1 record under way")
        if self.jitter_ms < 0 or self.lateness_ms < 0:
            raise InputError(
                f"jitter_ms {self.jitter_ms} and lateness_ms {self.lateness_ms}: both must be 0 ms or more"
            )
        if self.horizon_ms is None:
            return
        if self.horizon_ms < 0:
            raise InputError(f"horizon_ms is {self.horizon_ms}: it must be 0 or more, in milliseconds")
        if self.jitter_ms + self.horizon_ms >= self.lateness_ms:
            raise InputError(
                f"jitter_ms {self.jitter_ms} + horizon_ms {self.horizon_ms} must be less than lateness_ms "
                f"{self.lateness_ms}, or records in time could be judged late: lower the first two or raise the last"
            )


@dataclass(slots=True)
class Outstanding:
    """A record handed to the producer; `mark` is the largest event time (ms) sent up to and including it."""

    mark: int | None
    offset: int | None = None
    settled: bool = False


class Pacer:
    """Decides whether the next record may be sent; no clock, no client.

    A record is *settled* once it was acknowledged at an offset below the end offset that a declared epoch pins for its
    partition. Let H(r) be the largest event time sent up to record r. The pacer admits a record only while
    H(now) - H(r) <= horizon for every unsettled r. The watermark W of the epoch that takes r comes from records sent
    while r was unsettled, so W <= H(now) <= H(r) + horizon; a record in time has t(r) >= H(r) - jitter. Hence

        W - t(r) <= jitter + horizon < lateness        (default 20 s + 80 s < 120 s)

    and r, whose window ends after t(r), is not late, however the chain divides the input into epochs. With nothing
    unsettled any jump is admitted: no record is there to be overtaken.
    """

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self.high_ms: int | None = None
        self.outstanding = 0
        self._order: deque[Outstanding] = deque()
        self._acknowledged: dict[int, deque[Outstanding]] = {}

    def may_send(self, event_time_ms: int | None) -> bool:
        """Tell whether a record may be sent now; None for one that cannot move the watermark."""
        if self.outstanding == 0:
            return True
        if self.outstanding >= self.pace.max_outstanding:
            return False
        oldest, high = self._order[0].mark if self._order else None, self._high_with(event_time_ms)
        if self.pace.horizon_ms is None or oldest is None or high is None:
            return True
        return high - oldest <= self.pace.horizon_ms

    def begin(self, event_time_ms: int | None) -> Outstanding:
        """Note a record as handed to the producer; keep the answer for `acknowledge` or `give_up`."""
        self.high_ms = self._high_with(event_time_ms)
        record = Outstanding(self.high_ms)
        if record.mark is not None:  # before the first event time there is nothing a watermark could come from
            self._order.append(record)
        self.outstanding += 1
        return record

    def acknowledge(self, record: Outstanding, partition: int, offset: int) -> None:
        """Note the coordinate the broker gave to a record."""
        record.offset = offset
        self._acknowledged.setdefault(partition, deque()).append(record)

    def give_up(self, record: Outstanding) -> None:
        """Note a record the producer gave up: it holds nobody back."""
        self._settle(record)
        self._trim()

    def release(self, ends: Mapping[int, int]) -> None:
        """Note the end offset (exclusive) that declared epochs pin for each partition."""
        for partition, end in ends.items():
            waiting = self._acknowledged.setdefault(partition, deque())
            while waiting and (waiting[0].offset or 0) < end:
                self._settle(waiting.popleft())
        self._trim()

    def _high_with(self, event_time_ms: int | None) -> int | None:
        if event_time_ms is None or self.high_ms is None:
            return self.high_ms if event_time_ms is None else event_time_ms
        return max(self.high_ms, event_time_ms)

    def _settle(self, record: Outstanding) -> None:
        if not record.settled:
            record.settled = True
            self.outstanding -= 1

    def _trim(self) -> None:
        while self._order and self._order[0].settled:
            self._order.popleft()
