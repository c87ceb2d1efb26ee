"""Kafka 4.3.1 completes a commit and writes no markers, when a lone broker starts again at the wrong moment.

    python -m tests.upstream.kafka_markers [--tries 5] [--partitions 50]

KAFKA-20734: `getPartitionLeaderEndpoint` answers "nobody" for a partition whose leader has just gone, and the
coordinator of transactions takes that for a deleted topic (`TransactionMarkerChannelManager`). Each try opens a
transaction, notes in the coordinator's log that its commit is being prepared, which needs no lucky moment, kills the
broker, and starts it. If the coordinator then says that nothing is open and readers of committed data stop before it,
the fault is there. More partitions keep the broker between leader and follower for longer.

Exit codes: 0 it is so; 1 it is not so, in any try.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from infra.embedded.kafka import KafkaBroker
from infra.embedded.process import wait_for
from infra.toolchain.prepare import prepare
from tests.harness.adapters.coordinator_log import COMMITTED, PREPARED, note_state, state_of

END_S = 30.0


def main(argv: Sequence[str] | None = None) -> int:
    """Try it; see the module."""
    parser = argparse.ArgumentParser(prog="kafka_markers", description=__doc__)
    parser.add_argument("--tries", type=int, default=5, help="at most so many")
    parser.add_argument("--partitions", type=int, default=50, help="beside the one of the transaction")
    args = parser.parse_args(argv)
    tools = prepare()
    with tempfile.TemporaryDirectory(prefix="kafka-markers-") as folder:
        broker = KafkaBroker(Path(folder) / "kafka", Path(folder) / "kafka.log", tools.java, tools.kafka_classpath)
        broker.start()
        try:
            _make_topic(broker.bootstrap, "beside", args.partitions)
            for number in range(1, args.tries + 1):
                hidden = _hidden(broker)
                told = f"{hidden} committed records hidden" if hidden else "markers came"
                sys.stdout.write(f"try {number}: {told}\n")
                if hidden:
                    return 0
        finally:
            broker.stop()
    return 1


def _hidden(broker: KafkaBroker) -> int:
    """Kill the broker in a commit; return how many records readers never see although it is complete."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    _make_topic(broker.bootstrap, name, 1)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name, "log_level": 0})
    producer.init_transactions(END_S)
    producer.begin_transaction()
    producer.produce(name, b"row")
    producer.flush(END_S)
    note_state(broker.bootstrap, [name], PREPARED)
    broker.kill()
    broker.restart()
    wait_for("the commit to be complete", END_S, lambda: state_of(broker.bootstrap, name) == COMMITTED)
    return _end(broker.bootstrap, name, "read_uncommitted") - _end(broker.bootstrap, name, "read_committed")


def _make_topic(bootstrap: str, name: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(END_S)
    wait_for(
        f"leaders of {name}",
        END_S,
        lambda: all(each.leader >= 0 for each in admin.list_topics(name, timeout=5).topics[name].partitions.values()),
    )


def _end(bootstrap: str, topic: str, isolation: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "markers", "isolation.level": isolation})
    try:
        end: int = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=END_S)[1]
        return end
    finally:
        consumer.close()


if __name__ == "__main__":
    sys.exit(main())
