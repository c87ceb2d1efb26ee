"""Collects the evidence of a run: every sink read late and committed only, the chain, and what is still open."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from tests.harness.adapters.chain_reader import ChainReader
from tests.harness.adapters.topics import Topics
from tests.harness.run_directory import SHOWN, RunDirectory

KAFKA_SINKS = ("accepted", "dead_letter", "user_counts")
GLOBAL_COUNTS = "global_counts"
Reached = dict[str, dict[int, int]]
"""By topic and partition, the offset at which it was read to its end."""


class Collector:
    """Reads the outputs of one pipeline into the run directory."""

    def __init__(self, run: RunDirectory, topics: Topics, chain: ChainReader, pipeline: str) -> None:
        self._run, self._topics, self._chain, self._pipeline = run, topics, chain, pipeline

    def boundary(self) -> dict[str, Any]:
        """Where every sink ends now: what the epilogue must not move."""
        ends: dict[str, Any] = {}
        for sink in KAFKA_SINKS:
            ends[sink] = {str(p.partition): p.high_watermark for p in self._topics.partitions([self._topic(sink)])}
        head = self._chain.head()
        assert head is not None
        ends[GLOBAL_COUNTS] = head.last_pinned
        return ends

    def collect(self, open_transactions: Callable[[], list[str]], stop: threading.Event) -> None:
        """Write everything below `observed/` but the epilogue. The driver must have stopped."""
        evidence = self._write_chain()
        reached: Reached = {}
        for sink in KAFKA_SINKS:
            self._write(sink, self._read(sink, stop, reached))
        self._write_quiet(KAFKA_SINKS, reached, open_transactions())
        rows = self._chain.rows(GLOBAL_COUNTS, evidence["head"]["last_recorded"])
        self._write(GLOBAL_COUNTS, ({**row, "epoch": epoch, "object": name} for epoch, name, row in rows))

    def _write_chain(self) -> dict[str, Any]:
        """Write the chain down, and what epochs show that were finished as they are shown; return the chain."""
        evidence = self._chain.evidence()
        self._run.write_json(self._run.chain_path, evidence)
        if any(one.get("shown") for one in [*evidence["epochs"], evidence["head"].get("declared") or {}]):
            with self._run.observed_writer(SHOWN) as writer:
                for row in self._chain.shown(evidence):
                    writer.write(row)
        return evidence

    def _write(self, sink: str, rows: Iterable[dict[str, Any]]) -> None:
        with self._run.observed_writer(sink) as writer:
            for row in rows:
                writer.write({"sink": sink, **row})

    def _read(self, sink: str, stop: threading.Event, reached: Reached) -> Iterator[dict[str, Any]]:
        topic = self._topic(sink)
        return self._topics.read(topic, stop, reached.setdefault(topic, {}))

    def _write_quiet(self, sinks: Sequence[str], reached: Reached, open_transactions: list[str]) -> None:
        """Write down where sinks end after they were read, and where reading them ended."""
        names = [self._topic(sink) for sink in sinks]
        partitions = [
            asdict(one) | {"read_to": reached.get(one.topic, {}).get(one.partition)}
            for one in self._topics.partitions([*names, *(f"{name}.progress" for name in names)])
        ]
        quiet = {"at": time.time_ns() // 1_000_000, "partitions": partitions, "open_transactions": open_transactions}
        self._run.write_json(self._run.quiet_path, quiet)

    def _topic(self, sink: str) -> str:
        return f"{self._pipeline}.{sink}"
