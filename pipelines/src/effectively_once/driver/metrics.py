"""What a driver tells Prometheus; off unless the environment names a port. Names begin with `effectively_once_`."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from effectively_once.driver.clock import find_left_behind
from effectively_once.driver.lease_watch import Why
from effectively_once.epoch.letter_reasons import limit
from effectively_once.errors import SettingsError
from effectively_once.ledger.epoch_record import EpochRecord

VARIABLE = "EFFECTIVELY_ONCE_METRICS_PORT"
PREFIX = "effectively_once_"
OUTCOMES = ("accepted", "duplicate", "late", "malformed", "filtered")
WARNINGS = ("retention", "retention_bytes", "min_insync")
"""What a start may warn of: see broker_probe.py."""
LOOKUPS = ("surely_new", "false_positives", "duplicates")
SECONDS = (0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 10.0, 30.0, 60.0)


class _AtWork(Collector):
    """What a driver at work tells. A standby tells none of it: rules would take its 0 for no input and no life."""

    def __init__(self, *, waits: bool) -> None:
        self.registry, self.waits = CollectorRegistry(), waits

    def describe(self) -> Iterable[Metric]:
        """Name all there is."""
        return self.registry.collect()

    def collect(self) -> Iterable[Metric]:
        """Give what is told now."""
        return () if self.waits else self.registry.collect()


class Metrics:
    """The metrics of one pipeline's driver. Counters begin at 0 with every driver; the ledger has the whole history.

    With `standby` it tells of its work only once it has taken over.
    """

    def __init__(self, pipeline: str, *, standby: bool = False) -> None:
        # What a standby tells of comes first, and then what a driver at work does.
        self.registry = of_all = CollectorRegistry()
        self._pipeline = pipeline
        self._standby = Gauge(
            f"{PREFIX}standby",
            "1 while this driver waits to take over; then it tells of nothing else.",
            ["pipeline"],
            registry=of_all,
        ).labels(pipeline)
        self._takeovers = Counter(
            f"{PREFIX}takeovers",
            "Take-overs of this driver as a standby, or at a start with `standby` set, by why it might.",
            ["pipeline", "why"],
            registry=of_all,
        )
        for why in Why:
            self._takeovers.labels(pipeline, why.value)
        self._at_work = _AtWork(waits=standby)
        self._rows = self._counter("rows", "Input rows of published epochs, by what became of them.", "outcome")
        self._records = self._counter(
            "records", "Input records of published epochs; fewer than rows where they are exploded."
        ).labels(pipeline)
        self._epochs = self._counter(
            "epochs", "Published epochs; `repeat`: some of it had been published before.", "repeat"
        )
        self._steps = self._counter("step_seconds", "Time of the slowest shard, by step of an epoch.", "step")
        self._seconds = Histogram(
            f"{PREFIX}epoch_seconds",
            "From the declaration of an epoch to its last publication.",
            ["pipeline"],
            buckets=SECONDS,
            registry=self._at_work.registry,
        )
        self._epoch = self._gauge("last_epoch", "Number of the last published epoch.")
        self._generation = self._labelled(
            "generation", "Of this driver, once it took the chain over; each driver that takes over has a higher one."
        )
        self._letters = self._counter(
            "dead_letters", "Dead letters of published epochs, by the first word of their reason.", "reason"
        )
        self._filtered = self._counter(
            "filtered", "Records of published epochs that the transform left out, by declared reason.", "reason"
        )
        self._words: set[str] = set()
        self._warnings = self._labelled(
            "start_warning", "1 where this driver's start warned of the broker's settings.", "warning"
        )
        self._held = self._gauge(
            "input_retention_left_ratio",
            "Share of the retention that the oldest unread record has left: 1, at most 0.75, 0.5, 0.25; 0: lost.",
        )
        self._retention = self._gauge("input_retention_seconds", "How long the input topic is kept; -1: for ever.")
        self._seen_at = self._gauge("input_seen_timestamp_seconds", "When the broker last said how the input is.")
        self._degraded = self._gauge(
            "input_degraded_partitions", "Partitions of the input with a copy that is not in sync, or without a leader."
        )
        self._unread = self._labelled(
            "input_unread_offsets", "Offsets of committed input that no epoch covers.", "topic", "partition"
        )
        self._unread_s = self._labelled(
            "input_unread_seconds", "Age of the oldest of these; 0: there is none.", "topic", "partition"
        )
        self._certificates = self._labelled(
            "certificate_expiry_timestamp_seconds", "When the certificate ends that a server shows.", "server"
        )
        self._alive = self._gauge(
            "alive_timestamp_seconds", "When a trigger of the query was last seen to have ended; 0: none has."
        )
        self._paused = self._gauge("paused", "1 while operators have it paused.")
        self._looked_up = self._counter("catalog_lookups", "Ids that the dedup catalog was asked for.", "outcome")
        self._expired = self._counter("catalog_expired", "Ids that were forgotten.")
        self._live = self._gauge("catalog_ids", "Ids that are live.")
        self._memory = self._gauge("catalog_bytes", "Memory that live ids take.")
        self._bytes = self._counter("published_bytes", "Bytes of published rows.", "sink")
        self._watermark = self._gauge("watermark_seconds", "Watermark of the last published epoch, seconds since 1970.")
        self._released = self._gauge("sources_released", "Sources that windows do not wait for any more.")
        self._behind = self._gauge("left_behind", "Partitions and sources for which too much was held to wait.")
        self._published_at = self._gauge("published_timestamp_seconds", "When the last epoch was published.")
        of_all.register(self._at_work)

        for outcome in OUTCOMES:
            # A rate needs a zero to begin with.
            self._rows.labels(pipeline, outcome)

    def _counter(self, name: str, says: str, *labels: str) -> Counter:
        return Counter(PREFIX + name, says, ["pipeline", *labels], registry=self._at_work.registry)

    def _labelled(self, name: str, says: str, *labels: str) -> Gauge:
        return Gauge(PREFIX + name, says, ["pipeline", *labels], registry=self._at_work.registry)

    def _gauge(self, name: str, says: str) -> Any:
        return self._labelled(name, says).labels(self._pipeline)

    def show_standby(self) -> None:
        """Tell that this driver waits."""
        self._standby.set(1)

    def count_takeover(self, why: Why) -> None:
        """Count that this driver took over; it waits no more."""
        self._takeovers.labels(self._pipeline, why.value).inc()
        self._standby.set(0)
        self._at_work.waits = False

    def show_generation(self, generation: int) -> None:
        """Tell that this driver took the chain over."""
        self._generation.labels(self._pipeline).set(generation)

    def show_warnings(self, names: Iterable[str]) -> None:
        """Tell which warnings the start gave; those that it did not give are 0."""
        given = set(names)
        for name in WARNINGS:
            self._warnings.labels(self._pipeline, name).set(name in given)

    def show_input(self, share: float, retention_s: float | None) -> None:
        """Tell which share of its retention the oldest unread record has left; None is for a topic without one."""
        # The retention last: whoever finds it finds the others, of which `show_unread` has told before.
        self._held.set(share)
        self._retention.set(-1 if retention_s is None else retention_s)

    def show_unread(self, topic: str, unread: Mapping[str, tuple[int, float]]) -> None:
        """Tell how many offsets of each partition no epoch covers, and how old the oldest is, in seconds."""
        for partition, (number, age_s) in unread.items():
            self._unread.labels(self._pipeline, topic, partition).set(number)
            self._unread_s.labels(self._pipeline, topic, partition).set(age_s)

    def show_degraded(self, partitions: int) -> None:
        """Tell how many partitions of the input lack a copy that is in sync, as of now."""
        self._degraded.set(partitions)
        self._seen_at.set(time.time())

    def show_certificate(self, server: str, end_s: float) -> None:
        """Tell when the certificate ends that a server shows, in seconds since 1970."""
        self._certificates.labels(self._pipeline, server).set(end_s)

    def show_life(self) -> None:
        """Tell that a trigger of the query has ended, just now."""
        self._alive.set(time.time())

    def show_paused(self, paused: bool) -> None:
        """Tell whether operators have it paused: then it may stand still before a full topic."""
        self._paused.set(paused)

    def count_epoch(
        self, record: EpochRecord, ms: dict[str, int], letters: Mapping[str, int] = {}, *, repeat: bool
    ) -> None:
        """Count an epoch; `ms` are milliseconds by step, `total` among them, `letters` dead letters by reason."""
        counts = {**record.counts.model_dump(), "filtered": sum(record.filtered.values())}
        for outcome in OUTCOMES:
            self._rows.labels(self._pipeline, outcome).inc(counts[outcome])
        self._records.inc(counts["read"] if record.records is None else record.records)
        self._epochs.labels(self._pipeline, str(repeat).lower()).inc()
        for word, number in limit(letters, self._words).items():
            self._words.add(word)
            self._letters.labels(self._pipeline, word).inc(number)
        for reason, number in record.filtered.items():
            self._filtered.labels(self._pipeline, reason).inc(number)
        for step, took in ms.items():
            if step != "total":
                self._steps.labels(self._pipeline, step).inc(took / 1000)
        for sink, size in record.bytes.items():
            self._bytes.labels(self._pipeline, sink).inc(size)
        if record.catalog:
            for outcome in LOOKUPS:
                self._looked_up.labels(self._pipeline, outcome).inc(record.catalog[outcome])
            self._expired.labels(self._pipeline).inc(record.catalog["expired"])
            self._live.set(record.catalog["live"])
            self._memory.set(record.catalog["bytes"])
        self._seconds.labels(self._pipeline).observe(ms["total"] / 1000)
        self._epoch.set(record.epoch)
        self.show_generation(record.generation)
        self._published_at.set(time.time())
        self._released.set(len(record.clock.released) if record.clock else 0)
        self._behind.set(len(find_left_behind(record.clock, record.ranges)) if record.clock else 0)
        if record.watermark_ms is not None:
            self._watermark.set(record.watermark_ms / 1000)

    def serve(self, environment: dict[str, str] | None = None) -> int | None:
        """Serve them on the port that the environment names; the port, None when it names none.

        Raises:
            SettingsError: it is no free port.
        """
        wanted = (os.environ if environment is None else environment).get(VARIABLE)
        if not wanted:
            return None
        try:
            server, _ = start_http_server(int(wanted), registry=self.registry)
        except (ValueError, OverflowError, OSError) as error:
            raise SettingsError(
                f"{wanted!r} is no port that metrics can be served on: {error}",
                f"environment variable {VARIABLE}",
                "Name a free one, or leave it out.",
            ) from error
        return int(server.server_port)
