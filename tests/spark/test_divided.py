"""An epoch that is more than a shard takes, with real servers: divided alike by whoever repeats it, outputs exact."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from infra.embedded.process import Child
from tests.harness.workload.record import checksum, encode
from tests.spark.held import Held, kill
from tests.spark.outputs import assert_exact
from tests.spark.pipeline import PARTITIONS, Outgoing, Pipeline
from tests.spark.records import START_MS, mixture

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BOUND, LARGE_BOUND, PAYLOAD, NUMBER = 1 << 20, 64 << 20, 60_000, 80
AFTER_ALL_MS = START_MS + 24 * 3_600_000
PARTS = 3
"""At least: 80 records of 60 kB in two shards, 2.4 MB each, where a shard takes 1 MiB."""


def large(first: int, time_ms: int = START_MS) -> list[Outgoing]:
    """Make records that are more than a shard takes, each of them sent twice: a copy may be in another part."""
    found = []
    for number in range(NUMBER // 2):
        id_, user = f"large-{first}-{number:03d}", f"u{number % 5}"
        payload = f"{number:06d}" * (PAYLOAD // 6)
        crc = checksum(id_, user, time_ms, payload)
        value = encode(id_, user, time_ms, payload, crc)
        found += [Outgoing(value, (number + copy) % PARTITIONS, id_, user, time_ms, crc) for copy in range(2)]
    return found


class Divided:
    """A pipeline whose batches are large, and what ends its drivers."""

    def __init__(self, pipeline: Pipeline, folder: Path) -> None:
        self.pipeline, self.held = pipeline, Held(folder)

    def start(self, bound: int = BOUND) -> Child:
        settings = self.pipeline.write_settings({"shard_bytes_max": bound})
        return self.pipeline.start(settings, env=self.held.env)

    def end(self, driver: Child) -> None:
        """Close the windows, stop in order, and hold everything against the reference."""
        for number in range(2):
            self.pipeline.send(large(9_000 + number, AFTER_ALL_MS + number)[:PARTITIONS])
            self.pipeline.wait_processed(driver)
        driver.stop(60)
        assert driver.status() == 0, driver.post_mortem()
        assert_exact(self.pipeline)
        records = self.pipeline.epochs()
        assert sum(record.repairs is not None for record in records) >= PARTS - 1, "nothing was divided"
        assert not any(record.is_abandoned for record in records)


@pytest.fixture
def divided(new_pipeline: Callable[..., Pipeline], request: pytest.FixtureRequest, tmp_path: Path) -> Divided:
    name = f"divided_{request.node.name.rpartition('[')[2].rstrip(']')}".replace("-", "_")
    return Divided(new_pipeline(name, epoch_rows_max=NUMBER), tmp_path)


@pytest.mark.parametrize("point", ["declared", "accepted-committed", "dead_letter-published", "epoch_published"])
def test_a_driver_that_dies_in_any_part_is_followed_by_one_with_another_bound(divided: Divided, point: str) -> None:
    """What is declared is divided as declared; what is new by the new driver's bound."""
    divided.pipeline.send(large(0))
    first = divided.start()
    sink, _, what = point.rpartition("-")
    divided.held.ask(what, epoch=1, **({"sink": sink, "shard": 1} if sink else {}))
    process = divided.held.wait(first)
    if sink:
        kill(process)
    else:
        first.kill()
        first = divided.start(LARGE_BOUND)
    divided.held.release()
    divided.pipeline.wait_processed(first)
    divided.pipeline.send(mixture(3, 200))
    divided.pipeline.wait_processed(first)
    divided.end(first)
