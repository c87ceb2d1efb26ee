"""The Kafka sink under the conformance suite."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import ClassVar

from confluent_kafka.admin import AdminClient, NewTopic

from effectively_once.sinks.kafka import ShardSink
from effectively_once.sinks.kafka_shard import Row, ShardAddress
from infra.embedded.process import wait_for
from tests.stack.reader import values
from tests.stack.sinks.adapter import TRANSACTION, Adapter, Announce, silent


class KafkaAdapter(Adapter):
    """Rows are JSON values, ids in the field `id`."""

    points = TRANSACTION
    without: ClassVar = {"other_columns": "a topic takes any value"}

    @property
    def address(self) -> ShardAddress:
        """The shard that is published."""
        return ShardAddress(self.place.kafka, self.place.pipeline, "accepted", 1)

    def make(self) -> None:
        """Make both topics, and wait until every partition has a leader."""
        admin = AdminClient({"bootstrap.servers": self.place.kafka, "log_level": 0})
        names = {self.address.topic: "delete", self.address.progress: "compact"}
        made = admin.create_topics([NewTopic(n, 2, 1, config={"cleanup.policy": p}) for n, p in names.items()])
        for future in made.values():
            future.result(30)

        def led() -> bool:
            known = admin.list_topics(timeout=5).topics
            return all(sum(p.leader >= 0 for p in known[name].partitions.values()) == 2 for name in names)

        wait_for("leaders of the sink's topics", 30, led)

    def sink(self, announce: Announce = silent) -> ShardSink:
        """Open a publisher."""
        return ShardSink(self.address, announce)

    def rows(self, ids: Sequence[str], country: str | None = None) -> list[Row]:
        """Return key and value of each."""
        more = {} if country is None else {"country": country}
        return [(None, json.dumps({"id": identity, **more}).encode()) for identity in ids]

    def visible(self) -> list[tuple[str, str | None]]:
        """Read the partition to its last stable offset."""
        found = map(json.loads, values(self.place.kafka, self.address.topic, self.address.shard))
        return sorted(((row["id"], row.get("country")) for row in found), key=str)

    def missing(self) -> tuple[ShardSink, str]:
        """Open a publisher of a sink without topics."""
        address = ShardAddress(self.place.kafka, self.place.pipeline, "nowhere", 1)
        return ShardSink(address), rf"topic {address.progress} does not exist, or lacks a partition .*Run `effectively"

    def add_column(self) -> None:
        """Nothing: a row is JSON."""
