"""What the agent of the image makes of a real broker's beans, with the rules of the chart."""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from infra.embedded.kafka import KafkaBroker
from infra.embedded.ports import HOST, free_ports
from infra.embedded.process import wait_for
from infra.toolchain.cache import Cache, cache_root
from infra.toolchain.jars import resolve_jars
from infra.toolchain.prepare import prepare
from infra.values.generate import CHARTS
from tests.unit.monitoring import exported

pytestmark = pytest.mark.stack
RULES = CHARTS / "kafka" / "files" / "metrics.yaml"
TOPIC, RECORDS = "orders.accepted", 100
_LINE = re.compile(r"^(kafka_\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
Page = dict[tuple[str, str], float]


class WatchedKafka(KafkaBroker):
    """A broker with the agent in its JVM."""

    def __init__(self, work: Path, port: int) -> None:
        tools = prepare()
        super().__init__(work, work / "kafka.log", tools.java, tools.kafka_classpath)
        (agent,) = resolve_jars(Cache(cache_root()), "jmx").glob("*.jar")
        self._flags = (*self._flags, f"-javaagent:{agent}={HOST}:{port}:{RULES}")
        self._address = f"http://{HOST}:{port}/metrics"

    def page(self) -> Page:
        """Ask for the metrics of the broker: (name, labels) -> value."""
        with urllib.request.urlopen(self._address, timeout=20) as answer:  # noqa: S310 - our own address
            text = answer.read().decode()
        return {(name, labels): float(value) for name, labels, value in _LINE.findall(text)}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedKafka]:
    broker = WatchedKafka(tmp_path_factory.mktemp("kafka"), free_ports(1)[0])
    broker.start()
    yield broker
    broker.stop()


def produce(kafka: WatchedKafka, records: int) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "acks": "all"})
    for _ in range(records):
        producer.produce(TOPIC, b"x" * 100, partition=0)
    assert producer.flush(30) == 0


def test_every_metric_of_the_rules_is_there_and_follows_the_broker(kafka: WatchedKafka) -> None:
    """Of a broker that is its controller too, and is well."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(30)
    # A rate of the last minute is there once the broker has lived for some seconds.
    wait_for("all metrics", 60, lambda: {name for name, _ in kafka.page()} >= exported.OF_KAFKA)
    before, began = kafka.page(), time.monotonic()
    produce(kafka, RECORDS)
    after = kafka.page()
    written = 'partition="0",topic="orders.accepted"'
    assert after["kafka_records_in_total", ""] - before["kafka_records_in_total", ""] >= RECORDS
    assert after["kafka_bytes_in_total", ""] > before["kafka_bytes_in_total", ""]
    assert (before["kafka_log_bytes", written], after["kafka_log_bytes", written] > 100) == (0, True)
    assert 0 <= after["kafka_request_seconds", 'quantile="0.99",request="Produce"'] < time.monotonic() - began
    assert after["kafka_request_handlers_idle_ratio", ""] <= 1
    well = {"kafka_active_controllers": 1, "kafka_offline_partitions": 0, "kafka_late_transaction_partitions": 0}
    well |= {"kafka_under_min_isr_partitions": 0, "kafka_under_replicated_partitions": 0}
    assert {name: after[name, ""] for name in well} == well
    assert {name for name, _ in after} == exported.OF_KAFKA, "no bean that nobody asked for"
