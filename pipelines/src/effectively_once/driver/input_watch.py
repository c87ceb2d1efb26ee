"""Looks at the input, whatever the driver is at: what is unread, how old that is, how near the retention is to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from functools import partial

import structlog

from effectively_once.driver.metrics import Metrics
from effectively_once.driver.past_ends import PastEnds
from effectively_once.errors import PipelineError
from effectively_once.ledger.offsets import Offsets
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
        at: Callable[[], Offsets],
        clock: Callable[[], float] = lambda: time.time() * 1000,
    ) -> None:
        self._source, self._metrics, self._at, self._clock = source, metrics, at, clock
        self._retention_ms: dict[str, int] = {}
        self._past = {topic: PastEnds() for topic in source.topics}
        self._looked_back = False

    def start(self, stopping: threading.Event) -> None:
        """Look in a thread of its own until `stopping` is set: a broker that is away must not keep anybody else."""
        threading.Thread(target=self._run, args=(stopping,), name="input-watch", daemon=True).start()

    def look(self) -> None:
        """Look once. Raises UnreachableError and SourceError, as the source does."""
        if not self._retention_ms:
            set_to = self._source.topic_settings()
            self._retention_ms = {topic: int(values[RETENTION_MS]) for topic, values in set_to.items()}
        first, last, at = self._source.first_offsets(), self._source.last_offsets(), self._at()
        share = min(self._share_left(topic, at.get(topic, {}), first[topic], last[topic]) for topic in last)
        ends = self._source.committed_ends(last)
        self._show_unread({topic: list_unread(at.get(topic, {}), first[topic], ends[topic]) for topic in ends})
        # The shortest is the one that loses records first.
        retention_ms = min((one for one in self._retention_ms.values() if one >= 0), default=None)
        self._metrics.show_input(share, None if retention_ms is None else retention_ms / 1000)

    def _share_left(self, topic: str, at: Partitions, first: Partitions, last: Partitions) -> float:
        retention_ms = self._retention_ms[topic]

        def younger(share: float) -> Partitions:
            return self._first_since(topic, self._clock() - share * retention_ms)

        if any(at.get(partition, 0) < offset for partition, offset in first.items()):
            return 0.0
        return 1.0 if retention_ms < 0 else share_left(at, last, younger)

    def _first_since(self, topic: str, time_ms: float) -> Partitions:
        return self._source.offsets_since(int(time_ms))[topic]

    def _show_unread(self, spans: Mapping[str, Spans]) -> None:
        for topic, parts in spans.items():
            past = self._past[topic]
            at, ends = ({partition: span[side] for partition, span in parts.items()} for side in (0, 1))
            past.note(self._clock(), ends)
            if not self._looked_back:
                past.look_back(at, partial(self._first_since, topic))
            past.forget(at)
            unread = {p: (end - start, past.find_age_s(p, start)) for p, (start, end) in parts.items()}
            self._metrics.show_unread(topic, unread)
        self._looked_back = True
        self._metrics.show_degraded(sum(map(self._source.count_degraded, spans)))

    def _run(self, stopping: threading.Event) -> None:
        while True:
            try:
                self.look()
            except PipelineError as error:
                # Whether the pipeline can go on without its broker shows at the next epoch.
                log.warning("how long the input is held cannot be told", error=str(error))
            if stopping.wait(EVERY_S):
                return
