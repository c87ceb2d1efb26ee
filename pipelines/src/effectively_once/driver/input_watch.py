"""Looks at the input, whatever the driver is at: what is unread, how old that is, how near the retention is to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog

from effectively_once.driver.metrics import Metrics
from effectively_once.driver.past_ends import PastEnds
from effectively_once.errors import PipelineError
from effectively_once.sources.kafka import RETENTION_MS, KafkaSource
from effectively_once.sources.retained import Partitions, Spans, list_unread, share_left

EVERY_S = 30.0

log = structlog.get_logger()


class InputWatch:
    """One per driver; it also keeps the source's earliest offsets fresh, which declarations are held against.

    Args:
        source: the input.
        metrics: are told.
        at: gives where the chain ends, and before its first epoch where that will begin.
        clock: ms since 1970.

    """

    def __init__(
        self,
        source: KafkaSource,
        metrics: Metrics,
        at: Callable[[], Partitions],
        clock: Callable[[], float] = lambda: time.time() * 1000,
    ) -> None:
        self._source, self._metrics, self._at, self._clock = source, metrics, at, clock
        self._retention_ms: int | None = None
        self._past = PastEnds()
        self._looked_back = False

    def start(self, stopping: threading.Event) -> None:
        """Look in a thread of its own until `stopping` is set: a broker that is away must not keep anybody else."""
        threading.Thread(target=self._run, args=(stopping,), name="input-watch", daemon=True).start()

    def look(self) -> None:
        """Look once. Raises UnreachableError and SourceError, as the source does."""
        if self._retention_ms is None:
            self._retention_ms = int(self._source.topic_settings()[RETENTION_MS])
        first, last = self._source.first_offsets(), self._source.last_offsets()
        at, retention_ms = self._at(), self._retention_ms
        lost = any(at.get(partition, 0) < offset for partition, offset in first.items())

        def younger(share: float) -> Partitions:
            return self._source.offsets_since(int(self._clock() - share * retention_ms))

        share = 0.0 if lost else 1.0 if retention_ms < 0 else share_left(at, last, younger)
        self._show_unread(list_unread(at, first, self._source.committed_ends(last)))
        self._metrics.show_input(share, None if retention_ms < 0 else retention_ms / 1000)

    def _show_unread(self, spans: Spans) -> None:
        at, ends = ({partition: span[side] for partition, span in spans.items()} for side in (0, 1))
        self._past.note(self._clock(), ends)
        if not self._looked_back:
            self._past.look_back(at, lambda time_ms: self._source.offsets_since(int(time_ms)))
            self._looked_back = True
        self._past.forget(at)
        unread = {p: (end - start, self._past.find_age_s(p, start)) for p, (start, end) in spans.items()}
        self._metrics.show_unread(self._source.topic, unread, self._source.count_degraded())

    def _run(self, stopping: threading.Event) -> None:
        while True:
            try:
                self.look()
            except PipelineError as error:
                # Whether the pipeline can go on without its broker shows at the next epoch.
                log.warning("how long the input is held cannot be told", error=str(error))
            if stopping.wait(EVERY_S):
                return
