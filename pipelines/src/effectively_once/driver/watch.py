"""What a driver hears of the partitions and sources of its input, of which it makes the clock of each epoch (R6)."""

from __future__ import annotations

import threading

import structlog

from effectively_once.driver.attended import Attended
from effectively_once.driver.clock import Idle, Silence, find_left_behind, force, next_clock, without_backlog
from effectively_once.ledger.clock import Clock
from effectively_once.ledger.head import Head
from effectively_once.ledger.offsets import Ranges
from effectively_once.pipeline.settings import PipelineSettings
from effectively_once.sources.kafka import KafkaSource
from effectively_once.sources.statements import Statements

log = structlog.get_logger()


class Watch:
    """Hears who moves and who is silent. One per driver; it reads the broker, and writes nothing.

    Silence counts only while this driver was awake and the broker answered: who could not be heard was not silent.

    Args:
        settings: with `idle_ms`.
        source: is asked where silent partitions end.

    """

    def __init__(self, settings: PipelineSettings, source: KafkaSource) -> None:
        assert settings.idle_ms is not None  # noqa: S101 - the caller looked
        self._source, self._sources = source, settings.sources
        self._held_rows_max = settings.held_rows_max
        self._attended = Attended(source.last_offsets)
        self._partitions = Silence(settings.idle_ms, self._attended.seconds)
        self._silence = Silence(settings.hold_max_ms, self._attended.seconds)
        self._said: dict[str, int | None] = {}
        self._statements = (
            Statements(settings.kafka_bootstrap, settings.topic, settings.sources, settings.start_patience_s)
            if settings.sources
            else None
        )

    def start(self, stopping: threading.Event) -> None:
        """Begin to look at the broker, until `stopping` is set."""
        self._attended.start(stopping)

    def pin(self, head: Head, ranges: Ranges) -> Clock:
        """Return the clock of the epoch that is to follow `head` with these ranges."""
        last = (head.tail[-1].clock if head.tail else None) or Clock()
        times = self._times(last, head)
        pinned = next_clock(head, self._idle(last, ranges), times, self._release(last, times))
        pinned = force(head, pinned, ranges)
        before = find_left_behind(last, head.tail[-1].ranges) if head.tail else []
        for name in sorted({*find_left_behind(pinned, ranges)} - {*before}):
            log.warning(
                "too much is held, one that is behind is not waited for",
                behind=name,
                time_ms=pinned.forced_ms,
                held_rows_max=self._held_rows_max,
                todo="See why it is behind. Where executors have more memory, raise `held_rows_max`.",
            )
        return pinned

    def _idle(self, last: Clock, ranges: Ranges) -> Idle:
        moved = {
            (topic, partition): end > start
            for topic, partitions in ranges.items()
            for partition, (start, end) in partitions.items()
        }
        # One that was idle stays so until it moves: a start does not wait for it once more.
        before = [(topic, one) for topic, partitions in last.idle.items() for one in partitions]
        still = [one for one in before if not moved.get(one, True)]
        silent = [*dict.fromkeys([*still, *self._partitions.hear(moved)])]
        # The broker is asked only where somebody might be idle.
        return without_backlog(silent, ranges, self._source.last_offsets()) if silent else {}

    def _times(self, last: Clock, head: Head) -> dict[str, int | None]:
        """How far each registered source has come by what the epochs up to now have read; time never falls."""
        if self._statements is None:
            return {}
        new = self._statements.take_passed(head.tail[-1].ranges if head.tail else {})
        return {name: _later(last.sources.get(name), new.get(name)) for name in self._sources}

    def _latest(self, times: dict[str, int | None]) -> dict[str, int | None]:
        """How far each source has said it is, whether that was read or not."""
        said = {} if self._statements is None else self._statements.latest
        return {name: _later(time, said.get(name)) for name, time in times.items()}

    def _release(self, last: Clock, times: dict[str, int | None]) -> tuple[str, ...]:
        said, self._said = self._said, self._latest(times)
        # A word shows that a source is there before the chain has read what it speaks of. A driver that starts knows
        # of none but what is pinned.
        moved = {
            name: time != last.sources.get(name) or self._said[name] != said.get(name, last.sources.get(name))
            for name, time in times.items()
        }
        # Where their topic could not be read they were not silent: their time to move begins anew.
        deaf = self._statements is not None and not self._statements.heard
        silent = self._silence.hear(dict.fromkeys(moved, True) if deaf else moved)
        # One that an earlier driver let go stays so until it moves: a start does not wait for it once more.
        gone = {*silent, *(name for name in last.released if not moved.get(name, True))}
        for name in sorted(gone - {*last.released}):
            log.warning(
                "a source is not waited for any more",
                source=name,
                time_ms=times[name],
                todo="Start its gateway, or take it out of `sources`.",
            )
        return tuple(sorted(gone))


def _later(one: int | None, other: int | None) -> int | None:
    return max((time for time in (one, other) if time is not None), default=None)
