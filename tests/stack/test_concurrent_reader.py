"""The reader that watches a run reads partitions that its topics are given meanwhile, of a real broker."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from infra.embedded.process import wait_for
from infra.embedded.stack import EmbeddedStack
from tests.harness.adapters.chain_reader import ChainReader
from tests.harness.adapters.concurrent_reader import ConcurrentReader
from tests.harness.adapters.topics import Topics
from tests.harness.run_directory import RunDirectory
from tests.stack.conftest import Topic


class NoManifests:
    """An object store without any."""

    def read_published(self, sink: str, epoch: int) -> None: ...


def test_a_partition_that_is_new_is_read_to_its_end(
    stack: EmbeddedStack, admin: AdminClient, topic: Topic, pipeline: str, tmp_path: Path
) -> None:
    name = topic(f"{pipeline}.accepted")
    topics = Topics(stack.endpoints.kafka_bootstrap)
    chain = cast("ChainReader", NoManifests())
    reader = ConcurrentReader(
        RunDirectory(tmp_path), topics, chain, {"accepted": name}, partitions=1, object_sink="global_counts"
    )
    producer = Producer({"bootstrap.servers": stack.endpoints.kafka_bootstrap})
    reader.start()
    try:
        admin.create_partitions([NewPartitions(name, 2)])[name].result(30)
        # The controller has answered; the broker learns of the partition a moment later.
        wait_for("partition 1", 30, lambda: (name, 1) in topics.list_partitions([name]))
        told: list[object] = []
        for partition in (0, 1):
            producer.produce(
                name, b'{"epoch": 1}', partition=partition, on_delivery=lambda error, _: told.append(error)
            )
        assert (producer.flush(30), told) == (0, [None, None])
        reader.finish()
    finally:
        reader.stop()
    assert reader.complete, reader.trouble
    rows = [row for row in RunDirectory(tmp_path).concurrent_rows("accepted") if "partition" in row]
    assert {row["partition"]: row["offsets"] for row in rows} == {0: [0], 1: [0]}
