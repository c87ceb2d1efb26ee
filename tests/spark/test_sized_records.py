"""A record too large for a sink's topic is a dead letter on a real broker: no sink shows it, nothing stops (R8)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer

from effectively_once.operate.create.create import create
from infra.embedded.process import wait_for
from infra.embedded.stack import EmbeddedStack
from infra.toolchain.prepare import Toolchain
from tests.spark.pipeline import PROCESSED_S, Commanded

pytestmark = pytest.mark.spark


class Sized(Commanded):
    """A pipeline of `sized_job`, whose input is one partition."""

    def create_topics(self) -> None:
        create(self.job, replication=1, deadline_s=30, source_partitions=1)

    def read_reasons(self, sink: str) -> list[tuple[str, str | None]]:
        """Id and reason of every committed message of a sink."""
        found = [json.loads(value or b"") for _, _, value in self.raw(f"{self.name}.{sink}")]
        return sorted((row["id"], row.get("reason")) for row in found)


def test_a_record_too_large_for_one_sink_stops_nothing(
    stack: EmbeddedStack, toolchain: Toolchain, tmp_path: Path
) -> None:
    """Key and copy of the key, control characters, and neighbours in the same epoch; then an epoch more."""
    changes = {"job": "tests.spark.sized_job", "shards": 2}
    sized = Sized(toolchain, stack.endpoints, tmp_path, "sized", changes)
    sized.create_topics()
    producer = Producer({"bootstrap.servers": stack.endpoints.kafka_bootstrap})

    def send(identity: str, user: str) -> None:
        record = {"id": identity, "user": user, "event_time_ms": 1_700_000_000_000, "payload": "", "crc": 0}
        producer.produce(sized.topic, json.dumps(record, ensure_ascii=False))

    users = {"a": "ann", "b": "k" * 700_000, "c": "cid", "d": '"' * 380_000, "e": "eve"}
    for identity, user in users.items():
        send(identity, user)
    assert producer.flush(60) == 0
    driver = sized.start()
    try:
        wait_for("the first records", PROCESSED_S, lambda: sized.published_rows() >= len(users), driver)
        send("f", "fay")
        assert producer.flush(60) == 0
        wait_for("one more", PROCESSED_S, lambda: sized.published_rows() > len(users), driver)
    finally:
        sized.end()
    accepted = [(identity, None) for identity in ("a", "c", "e", "f")]
    assert sized.read_reasons("accepted") == sized.read_reasons("keyed") == accepted
    assert sized.read_reasons("dead_letter") == [("b", "large_keyed"), ("d", "large_keyed")]
