"""Flink runs exactly once, and what fails in it ends the run instead of being tried again without a word."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tests.bench.flink import TRANSACTION_MS, Flink

BROKER_MAX_MS = 900_000
"""`transaction.max.timeout.ms` of a broker that nobody configured."""


def test_the_program_runs_exactly_once_with_the_stated_interval(tmp_path: Path) -> None:
    text = Flink("run", "events", "counts", 5_000, 10_000).properties("broker:1", tmp_path)
    written = dict(line.split("=", 1) for line in text.splitlines())

    assert written["flink.execution.checkpointing.mode"] == "EXACTLY_ONCE"
    assert written["flink.execution.checkpointing.interval"] == "1000 ms"
    assert written["flink.execution.checkpointing.dir"] == tmp_path.as_uri()
    assert written["flink.restart-strategy.type"] == "none"
    assert (written["bench.window.ms"], written["bench.lateness.ms"]) == ("5000", "10000")
    assert (written["bench.accepted"], written["bench.dedup"]) == ("", "false")
    assert int(written["producer.transaction.timeout.ms"]) == TRANSACTION_MS < BROKER_MAX_MS


def test_accepted_rows_and_dedup_are_asked_for(tmp_path: Path) -> None:
    text = Flink("run", "events", "counts", 5_000, 10_000, "rows", drops=True).properties("broker:1", tmp_path)

    assert "bench.accepted=rows\nbench.dedup=true\n" in text


def test_rows_are_done_that_are_in_a_complete_checkpoint() -> None:
    parts = [TopicPartition("events", 0, 30), TopicPartition("events", 1, 12), TopicPartition("events", 2, -1001)]
    answer: Any = SimpleNamespace(result=lambda _: SimpleNamespace(topic_partitions=parts))
    broker = SimpleNamespace(list_consumer_group_offsets=lambda _: {"run": answer})

    assert Flink("run", "events", "counts", 1, 1).progress(cast(AdminClient, broker)).rows == 42
