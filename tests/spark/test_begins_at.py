"""A new pipeline that begins at a time: what is older is read by nobody, and its chain alone says how it goes on."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer

from infra.embedded.process import wait_for
from infra.embedded.stack import EmbeddedStack
from infra.toolchain.prepare import Toolchain
from tests.spark.pipeline import PROCESSED_S, Commanded
from tests.spark.trials import record

pytestmark = pytest.mark.spark
BEGINS_AT = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
"""Of today: by their time the broker deletes older records."""
BEGINS_MS = int(BEGINS_AT.timestamp() * 1000)


class Beginning(Commanded):
    """A pipeline of one partition that begins an hour ago."""

    source_partitions = 1

    def send_at(self, time_ms: int, *ids: str) -> None:
        """Send records that have this Kafka timestamp."""
        producer = Producer({**self.client, "linger.ms": 200})
        for id_ in ids:
            producer.produce(self.topic, json.dumps(record(id_, 5)), timestamp=time_ms)
        assert producer.flush(60) == 0

    def ids(self) -> list[str]:
        """Return those of all accepted rows, as readers see them."""
        return sorted(json.loads(value or b"")["id"] for _, _, value in self.raw(f"{self.name}.accepted"))


def test_it_reads_what_came_since_and_goes_on_by_its_chain(
    stack: EmbeddedStack, toolchain: Toolchain, tmp_path: Path
) -> None:
    """Killed, it takes a record that is older than its time too; and with another time it does not start."""
    job = {"job": "tests.spark.lengths_job", "begins_at": BEGINS_AT.isoformat()}
    one = Beginning(toolchain, stack.endpoints, tmp_path, "beginning", job)
    one.create_topics()
    one.send_at(BEGINS_MS - 1, "a", "b")
    one.send_at(BEGINS_MS, "c", "d")
    driver = one.start()
    try:
        wait_for("what came since", PROCESSED_S, lambda: one.published_rows() == 2, driver)
        driver.kill()
        one.send_at(BEGINS_MS - 60_000, "e")
        refused = one.start(one.write_settings({"begins_at": "2026-03-01T11:00:00Z"}))
        wait_for("it to be refused", PROCESSED_S, lambda: not refused.running())
        assert refused.status() == 64, refused.post_mortem()
        assert f"begins_at was '{BEGINS_AT.isoformat()}' when this pipeline began" in refused.post_mortem()
        driver = one.start()
        wait_for("what came later", PROCESSED_S, lambda: one.published_rows() == 3, driver)
        driver.stop(30)
    finally:
        one.end()
    assert one.epochs()[0].ranges[one.topic]["0"][0] == 2
    assert one.ids() == ["c", "d", "e"]
