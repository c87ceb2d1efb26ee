"""Peers run exactly once, with the clients that they are made for, and are through when all their parts are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from xml.etree import ElementTree as ET

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from infra.versions import KAFKA_BROKER, SLF4J_SIMPLE
from tests.bench import peers
from tests.bench.flink import TRANSACTION_MS, Flink
from tests.bench.streams import Job

SPACE = "{http://maven.apache.org/POM/4.0.0}"


@pytest.mark.parametrize(
    ("peer", "versions"),
    [
        ("streams", {"kafka.version": KAFKA_BROKER}),
        ("flink", {"flink.version": "2.2.1", "connector.version": "5.0.0-2.2"}),
    ],
)
def test_the_jars_of_a_peer_fit_one_another(peer: str, versions: dict[str, str]) -> None:
    """Kafka Streams is of the broker's version; a connector's version ends with the Flink that it is built for."""
    stated = ET.parse(peers.HERE / peer / "pom.xml").getroot().find(f"{SPACE}properties")  # noqa: S314 - our own file
    assert stated is not None
    found = {one.tag.removeprefix(SPACE): one.text or "" for one in stated}
    assert found == {**versions, "slf4j.version": SLF4J_SIMPLE}
    built_for = found.get("connector.version", "").rpartition("-")[2]
    assert found.get("flink.version", "").startswith(built_for)


JOB = Job("app", "events", "counts", 60_000, 1_200_000)
DEDUP = replace(JOB, dedup_ms=120_000, accepted="rows", partitions=2)
BY_ID, BY_USER = "app-by-id-repartition", "app-by-user-repartition"
TOTAL, UNIQUE = 40, 20


@dataclass(frozen=True)
class Broker:
    """Holds a group's positions, and the ends of topics in between; each is of partition 0."""

    at: Mapping[str, int]
    ends: Mapping[str, int]

    def list_consumer_group_offsets(self, _: list[Any]) -> dict[str, Any]:
        at = [
            *(TopicPartition(topic, 0, offset) for topic, offset in self.at.items()),
            TopicPartition(BY_USER, 1, -1001),
        ]
        return {"app": _answering(SimpleNamespace(topic_partitions=at))}

    def list_offsets(self, asked: dict[TopicPartition, Any]) -> dict[TopicPartition, Any]:
        return {one: _answering(SimpleNamespace(offset=0 if one.partition else self.ends[one.topic])) for one in asked}


def _answering(answer: Any) -> Any:
    return SimpleNamespace(result=lambda _: answer)


@pytest.mark.parametrize(
    ("read", "counted", "end", "rows"),
    [
        (0, 0, 0, 0),
        (40, 25, 43, 25),
        (40, 42, 43, 39),  # marks of transactions are counted as rows, and never make up for the last ones
        (30, 33, 33, 33),  # at the end of what was sent in between, but not all was read
        (30, 45, 45, 39),
        (40, 43, 43, 40),
    ],
)
def test_kafka_streams_is_through_when_both_parts_are(read: int, counted: int, end: int, rows: int) -> None:
    broker = cast(AdminClient, Broker({"events": read, BY_USER: counted}, {BY_USER: end}))

    assert JOB.progress(broker, TOTAL, TOTAL).rows == rows


@pytest.mark.parametrize(
    ("by_id", "by_user", "rows"),
    [
        (10, 5, 10),  # half of the rows go on: so many of all are through
        (40, 22, 39),  # at the end of the last topic, but more is to come into it
        (43, 20, 39),
        (43, 22, 40),
    ],
)
def test_with_dedup_a_topic_more_has_to_be_read_and_rows_are_those_of_the_input(
    by_id: int, by_user: int, rows: int
) -> None:
    broker = cast(AdminClient, Broker({"events": 40, BY_ID: by_id, BY_USER: by_user}, {BY_ID: 43, BY_USER: 22}))

    assert DEDUP.progress(broker, TOTAL, UNIQUE).rows == rows


def test_all_topics_that_kafka_streams_makes_are_known() -> None:
    changelogs = ["app-ids-changelog", "app-counts-changelog"]

    assert JOB.topics() == [BY_USER, changelogs[1]]
    assert DEDUP.topics() == [BY_ID, BY_USER, *changelogs]


def test_kafka_streams_runs_exactly_once_with_the_stated_commit_interval(tmp_path: Path) -> None:
    written = dict(line.split("=", 1) for line in DEDUP.properties("broker:1", tmp_path).splitlines())

    assert written["processing.guarantee"] == "exactly_once_v2"
    assert written["commit.interval.ms"] == "1000"
    assert (written["bench.output"], written["bench.accepted"], written["bench.dedup.ms"]) == (
        "counts",
        "rows",
        "120000",
    )
    assert written["bench.partitions"] == "2"
    assert written["producer.compression.type"] == "lz4"


BROKER_MAX_MS = 900_000
"""`transaction.max.timeout.ms` of a broker that nobody configured."""


def test_flink_runs_exactly_once_with_the_stated_interval(tmp_path: Path) -> None:
    text = Flink("run", "events", "counts", 5_000, 10_000).properties("broker:1", tmp_path)
    written = dict(line.split("=", 1) for line in text.splitlines())

    assert written["flink.execution.checkpointing.mode"] == "EXACTLY_ONCE"
    assert written["flink.execution.checkpointing.interval"] == "1000 ms"
    assert written["flink.execution.checkpointing.dir"] == tmp_path.as_uri()
    assert written["flink.restart-strategy.type"] == "none"
    assert (written["bench.window.ms"], written["bench.lateness.ms"]) == ("5000", "10000")
    assert (written["bench.accepted"], written["bench.dedup"]) == ("", "false")
    assert int(written["producer.transaction.timeout.ms"]) == TRANSACTION_MS < BROKER_MAX_MS


def test_flink_is_asked_for_accepted_rows_and_dedup(tmp_path: Path) -> None:
    text = Flink("run", "events", "counts", 5_000, 10_000, "rows", drops=True).properties("broker:1", tmp_path)

    assert "bench.accepted=rows\nbench.dedup=true\n" in text


def test_rows_of_flink_are_done_that_are_in_a_complete_checkpoint() -> None:
    parts = [TopicPartition("events", 0, 30), TopicPartition("events", 1, 12), TopicPartition("events", 2, -1001)]
    answer: Any = SimpleNamespace(result=lambda _: SimpleNamespace(topic_partitions=parts))
    broker = SimpleNamespace(list_consumer_group_offsets=lambda _: {"run": answer})

    assert Flink("run", "events", "counts", 1, 1).progress(cast(AdminClient, broker)).rows == 42
