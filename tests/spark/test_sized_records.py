"""A record too large for a sink's topic is a dead letter on a real broker: no sink shows it, nothing stops (R8)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from effectively_once.__main__ import main
from effectively_once.sinks import letter_records
from effectively_once.sinks.dead_letters import DeadLetter, of_message
from infra.embedded.process import wait_for
from infra.embedded.stack import EmbeddedStack
from infra.toolchain.prepare import Toolchain
from tests.spark.pipeline import PROCESSED_S, Commanded

pytestmark = pytest.mark.spark


class Sized(Commanded):
    """A pipeline of `sized_job`, whose input is one partition."""

    source_partitions = 1

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


def test_a_record_that_no_dead_letter_holds_is_an_object_and_is_sent_again(
    stack: EmbeddedStack, toolchain: Toolchain, tmp_path: Path
) -> None:
    """Ten megabytes that are no text: named by its letter, shown by it, replayed, and refused again alike."""
    sized = Sized(toolchain, stack.endpoints, tmp_path, "oversized", {"job": "tests.spark.sized_job", "shards": 2})
    sized.create_topics()
    record = b"\xff\x00" * 5_000_000
    producer = Producer(
        {"bootstrap.servers": stack.endpoints.kafka_bootstrap, "message.max.bytes": 20_000_000, "acks": "all"}
    )
    resource = ConfigResource(
        ResourceType.TOPIC,
        sized.topic,
        incremental_configs=[ConfigEntry("max.message.bytes", "20000000", incremental_operation=AlterConfigOpType.SET)],
    )
    sized.admin.incremental_alter_configs([resource])[resource].result(60)
    producer.produce(sized.topic, record)
    assert producer.flush(60) == 0
    driver = sized.start()

    def letters() -> list[DeadLetter]:
        found = [of_message(value, (0, 0)) for _, _, value in sized.raw(f"{sized.name}.dead_letter")]
        return [one for one in found if isinstance(one, DeadLetter)]

    try:
        wait_for("the record", PROCESSED_S, lambda: sized.published_rows() >= 1, driver)
        (letter,) = letters()
        assert letter.cut is not None
        assert letter.cut.key is not None
        assert letter_records.read(sized.store, letter).value == record
        settings = str(sized.write_settings())
        assert main(["dead-letters", "replay", settings]) == 0
        wait_for("the record again", PROCESSED_S, lambda: sized.published_rows() >= 2, driver)
        assert [letter_records.read(sized.store, one).value for one in letters()] == [record] * 2
        assert main(["retention", settings, "--delete", "--older-than-s", "0"]) == 0
        assert all(letter_records.read(sized.store, one).value == record for one in letters())
    finally:
        sized.end()
