"""What each negative control leaves out, without Spark and broker."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaException

from effectively_once.sinks.kafka_shard import ShardAddress
from effectively_once.sinks.publish import Committed, Mark
from tests.harness.controls import job

ROWS = [(b"u1", b"%d" % n) for n in range(25)]
MARK = Mark(epoch=4, generation=0, rows=len(ROWS), digest="d")


class Producer:
    """Keeps what a producer is asked for; `dies_at` is the number of the row at which its process is gone."""

    def __init__(self, dies_at: int | None = None) -> None:
        self.transactions: list[list[str]] = []
        self.flushes = 0
        self.committed: list[str] = []
        self._dies_at = dies_at

    def begin_transaction(self) -> None:
        self.transactions.append([])

    def produce(self, topic: str, value: bytes, key: bytes | None, *, partition: int, on_delivery: Any) -> None:
        if len(self.transactions[-1]) == self._dies_at:
            raise KafkaException("gone")
        self.transactions[-1].append(topic)

    def commit_transaction(self, timeout: float) -> None:
        self.committed += self.transactions[-1]

    def flush(self, timeout: float) -> int:
        self.flushes += 1
        return 0

    def __len__(self) -> int:
        return 1


def publish(kind: type[job.Dribbling], producer: Producer, driver: str = "") -> Committed:
    sink = kind(job.Output("b", "nc.x", driver).shard(1))
    sink._producer = producer
    return sink._commit(MARK, ROWS)


def test_a_dribbling_producer_commits_rows_and_mark_together() -> None:
    producer = Producer()
    assert publish(job.Dribbling, producer) is Committed.YES
    assert producer.transactions == [["nc.x.accepted"] * len(ROWS) + ["nc.x.accepted.progress"]]
    assert producer.flushes == -(-(len(ROWS) + 1) // job.GROUP), "a kill needs time between the first row and the last"


def test_mark_first_commits_the_mark_alone_and_then_its_rows() -> None:
    producer = Producer()
    assert publish(job.MarkFirst, producer) is Committed.YES
    assert producer.transactions == [["nc.x.accepted.progress"], ["nc.x.accepted"] * len(ROWS)]


@pytest.mark.parametrize(("kind", "left"), [(job.Dribbling, []), (job.MarkFirst, ["nc.x.accepted.progress"])])
def test_a_death_among_the_rows_leaves_the_mark_of_mark_first_alone(kind: type[job.Dribbling], left: list[str]) -> None:
    producer = Producer(dies_at=12)
    with pytest.raises(KafkaException):
        publish(kind, producer)
    assert producer.committed == left


def test_two_drivers_share_the_topic_and_nothing_that_could_fence_them() -> None:
    first, second = (job.Output("b", "nc.two_drivers", name).shard(1) for name in ("first", "second"))
    assert first.topic == second.topic == "nc.two_drivers.accepted"
    assert first.transactional_id != second.transactional_id
    assert first.progress != second.progress


def test_one_driver_has_the_names_that_the_library_gives() -> None:
    plain = ShardAddress("b", "nc.mark_first", "accepted", 1)
    ours = job.Output("b", "nc.mark_first").shard(1)
    assert (ours.topic, ours.progress, ours.transactional_id) == (plain.topic, plain.progress, plain.transactional_id)


def ids_of(count: int) -> pa.Array:
    return pa.array([b"p%d-s%d-%06d" % (n % 2, n % 4, n) for n in range(count)], pa.binary())


def test_a_filter_alone_loses_one_in_a_hundred_ids_or_more() -> None:
    ids = ids_of(6_000)
    passed = [*job.filter_ids(ids)]
    assert 0.5 * len(ids) < len(passed) < 0.99 * len(ids)
    assert passed == sorted(passed)


def test_a_filter_alone_lets_no_copy_through() -> None:
    """So a control that sends copies shows loss and nothing else."""
    ids = ids_of(3_000)
    twice = pa.concat_arrays([ids, ids.slice(1_000), ids.slice(2_990)])
    passed = twice.take(pa.array([*job.filter_ids(twice)], pa.int64())).to_pylist()
    assert len(passed) == len({*passed})


def test_without_a_catalog_every_row_is_new() -> None:
    assert [*job.everything(ids_of(5))] == [0, 1, 2, 3, 4]
    assert [*job.filter_ids(ids_of(0))] == []
