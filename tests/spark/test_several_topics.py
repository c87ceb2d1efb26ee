"""One pipeline over several topics: in a trial, and by drivers that are killed and lose their checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from effectively_once import KafkaRecord, Trial
from effectively_once.errors import SettingsError
from effectively_once.ledger.objects import delete_all, run
from infra.embedded.process import wait_for
from infra.embedded.stack import EmbeddedStack
from infra.toolchain.prepare import Toolchain
from tests.spark.pipeline import PROCESSED_S, Commanded
from tests.spark.topics_job import ORDERS, REFUNDS, pipeline
from tests.spark.trials import parsed, record, with_rows

pytestmark = pytest.mark.spark


def shown(outputs: dict[str, list[dict[str, Any]]]) -> list[tuple[str, str, int]]:
    return sorted((row["source"][0], row["id"], row["n"]) for row in outputs["accepted"])


@pytest.mark.parametrize("shards", [1, 3])
def test_each_topic_has_its_transform_and_all_one_catalog(spark: SparkSession, shards: int) -> None:
    tried = Trial(pipeline, spark, shards)
    sent = [
        KafkaRecord(record("a", 1, n=5), topic=ORDERS),
        KafkaRecord(record("b", 2, n=3), topic=REFUNDS),
        KafkaRecord(record("a", 1, n=5), topic=REFUNDS),
    ]
    outputs = tried.epoch(sent)
    (first,) = [row for row in outputs["accepted"] if row["id"] == "a"]
    assert shown(outputs) == sorted([(first["source"][0], "a", first["n"]), (REFUNDS, "b", -3)])
    assert tried.last.counts.duplicate == 1, "a copy is one, whichever topic it is in"
    assert tried.repeat() == outputs


def test_one_transform_of_all_sees_which_topic_a_record_is_of(spark: SparkSession) -> None:
    def of_topic(frame: DataFrame) -> DataFrame:
        return parsed(frame).withColumn("user", f.col("topic"))

    outputs = Trial(with_rows(transform=of_topic), spark, 1).epoch([record("a", 1)])
    assert [row["user"] for row in outputs["accepted"]] == ["trial"]


@pytest.mark.parametrize("topic", [None, "others"])
def test_a_record_of_a_topic_without_a_transform_is_refused_by_a_trial(spark: SparkSession, topic: str | None) -> None:
    with pytest.raises(SettingsError, match=rf"no transform.*one of {ORDERS}, {REFUNDS}"):
        Trial(pipeline, spark).epoch([KafkaRecord(record("a"), topic=topic)])


def test_every_transform_is_tried_before_anything_is_read(spark: SparkSession) -> None:
    filtering = with_rows(transform={ORDERS: parsed, REFUNDS: lambda frame: parsed(frame).where("n > 0")})
    with pytest.raises(SettingsError, match="no function of one record: its plan has Filter"):
        Trial(filtering, spark)


class Several(Commanded):
    """A pipeline over two topics, of two partitions and one."""

    source_partitions = 2

    def send_to(self, topic: str, partition: int, *ids: str) -> None:
        """Send records."""
        producer = Producer({**self.client, "linger.ms": 200})
        for id_ in ids:
            producer.produce(topic, json.dumps(record(id_, 5)), partition=partition)
        assert producer.flush(60) == 0

    def rows(self) -> list[tuple[str, int]]:
        """Return id and n of all accepted rows, as readers see them."""
        found = [json.loads(value or b"") for _, _, value in self.raw(f"{self.name}.accepted")]
        return sorted((row["id"], row["n"]) for row in found)


def test_drivers_that_are_killed_and_lose_their_checkpoint_read_every_record_of_both_once(
    stack: EmbeddedStack, toolchain: Toolchain, tmp_path: Path
) -> None:
    job = {"job": "tests.spark.topics_job", "topic": f"{REFUNDS},{ORDERS}"}
    one = Several(toolchain, stack.endpoints, tmp_path, "several", job)
    one.create_topics()
    one.send_to(ORDERS, 0, "a", "b")
    one.send_to(ORDERS, 1, "c")
    one.send_to(REFUNDS, 0, "d", "a")
    driver = one.start()
    try:
        wait_for("both topics", PROCESSED_S, lambda: one.published_rows() == 5, driver)
        driver.kill()
        refused = one.start(one.write_settings({"topic": ORDERS}))
        wait_for("other topics to be refused", PROCESSED_S, lambda: not refused.running())
        assert refused.status() == 64, refused.post_mortem()
        assert f"transforms of {ORDERS}, {REFUNDS} and reads {ORDERS}" in refused.post_mortem()
        run(delete_all([*one.store.names(one.layout.checkpoint(""))]), one.store)
        one.send_to(REFUNDS, 1, "e", "b")
        driver = one.start()
        wait_for("what came later", PROCESSED_S, lambda: one.published_rows() == 7, driver)
        driver.stop(30)
    finally:
        one.end()
    assert not {ORDERS, REFUNDS} & {*one.head().sink_topics}, "an input that nothing was read of yet may be made anew"
    ids = [id_ for id_, _ in one.rows()]
    assert ids == ["a", "b", "c", "d", "e"]
    signs = {id_: n > 0 for id_, n in one.rows()}
    assert signs["b"], "that of the topic it was accepted of"
    assert (signs["c"], signs["d"], signs["e"]) == (True, False, False)
    assert {topic: {*parts} for topic, parts in one.epochs()[-1].ranges.items()} == {
        ORDERS: {"0", "1"},
        REFUNDS: {"0", "1"},
    }
