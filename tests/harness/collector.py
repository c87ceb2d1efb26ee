"""Collects the evidence of a run: every sink read late and committed only, the chain, and what is still open."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

from tests.harness.adapters.chain_reader import ChainReader
from tests.harness.adapters.topics import Topics
from tests.harness.run_directory import RunDirectory

KAFKA_SINKS = ("accepted", "dead_letter", "user_counts")
GLOBAL_COUNTS = "global_counts"


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
        ends[GLOBAL_COUNTS] = head.declared.epoch if head.declared else head.last_recorded
        return ends

    def collect(self, open_transactions: Callable[[], list[str]], stop: threading.Event) -> None:
        """Write everything below `observed/` but the epilogue. The driver must have stopped."""
        evidence = self._chain.evidence()
        self._run.write_json(self._run.chain_path, evidence)
        names = [self._topic(sink) for sink in KAFKA_SINKS]
        names += [f"{name}.progress" for name in names]
        quiet = [asdict(partition) for partition in self._topics.partitions(names)]
        self._run.write_json(self._run.quiet_path, {"partitions": quiet, "open_transactions": open_transactions()})
        for sink in KAFKA_SINKS:
            self._write(sink, self._topics.read(self._topic(sink), stop))
        rows = self._chain.manifests(GLOBAL_COUNTS).rows(evidence["head"]["last_recorded"])
        self._write(GLOBAL_COUNTS, ({**row, "epoch": epoch, "object": name} for epoch, name, row in rows))

    def _write(self, sink: str, rows: Iterable[dict[str, Any]]) -> None:
        with self._run.observed_writer(sink) as writer:
            for row in rows:
                writer.write({"sink": sink, **row})

    def _topic(self, sink: str) -> str:
        return f"{self._pipeline}.{sink}"
