"""A record whose Kafka timestamp Spark's source cannot read: named by the driver, got past by the named commands."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from effectively_once.operate.abandon.accept_loss import accept_loss
from effectively_once.pipeline.job import job_of
from effectively_once.sources.times import BEFORE
from infra.embedded.process import wait_for
from tests.spark.pipeline import ADMIN_S, PROCESSED_S, Pipeline
from tests.spark.records import mixture

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SOURCE = 65
BEYOND_MS = -9_300_000_000_000_000


def take_any_time(pipeline: Pipeline) -> None:
    """Let the topic take records of any time, as brokers do by themselves."""
    any_time = ConfigEntry(BEFORE, str(2**63 - 1), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, pipeline.topic, incremental_configs=[any_time])
    pipeline.admin.incremental_alter_configs([resource])[resource].result(ADMIN_S)


def send_beyond(pipeline: Pipeline) -> TopicPartition:
    """Send the record that no version reads; return where it is."""
    told: list[int] = []
    producer = Producer({"bootstrap.servers": pipeline.endpoints.kafka_bootstrap})

    def keep(error: object, message: object) -> None:
        assert error is None, error
        told.append(message.offset())  # type: ignore[attr-defined]

    producer.produce(pipeline.topic, b"{}", partition=0, timestamp=BEYOND_MS, on_delivery=keep)
    assert producer.flush(ADMIN_S) == 0
    return TopicPartition(pipeline.topic, 0, told[0])


def test_it_is_named_and_records_behind_it_are_read(new_pipeline: Callable[..., Pipeline]) -> None:
    """No version gets past it; `kafka-delete-records.sh` and `accept-loss` do, and nothing behind it is lost."""
    pipeline = new_pipeline("unreadable")
    take_any_time(pipeline)
    pipeline.send(mixture(3, 40))
    driver = pipeline.start()
    try:
        pipeline.wait_processed(driver)
        where = send_beyond(pipeline)
        wait_for("the driver to end", PROCESSED_S, lambda: not driver.running())
        said = driver.log.read_text()
        assert driver.status() == SOURCE, said
        assert f"topic {pipeline.topic} partition 0 offset {where.offset}" in said.splitlines()[-1]
        before = len(pipeline.sends)
        pipeline.send(mixture(4, 40, 40))
        behind = TopicPartition(pipeline.topic, 0, where.offset + 1)
        pipeline.admin.delete_records([behind])[behind].result(ADMIN_S)
        accept_loss(job_of(pipeline.write_settings()), lambda _: None, yes=True)
        driver = pipeline.start()
        wait_for("what is behind it", PROCESSED_S, lambda: pipeline.published_rows() >= len(pipeline.sends), driver)
        assert len(pipeline.sends) > before
        (lost,) = [record.lost for record in pipeline.epochs() if record.lost is not None]
        assert lost.offsets == {pipeline.topic: {"0": (where.offset, where.offset + 1)}}
    finally:
        pipeline.end()
