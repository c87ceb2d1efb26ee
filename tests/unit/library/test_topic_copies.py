"""Copies of topics: cut where the chain of the backup ends, and filled so that a later copy finds that place again."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from effectively_once.ledger.rows import Rows
from effectively_once.operate.backup.backup_manifest import BackupError, BackupManifest
from effectively_once.operate.backup.location import BackupLocation
from effectively_once.operate.backup.topic_copies import TopicCopies, cut, decode_rows, encode
from effectively_once.pipeline.job import Job
from effectively_once.sinks import kafka
from effectively_once.sinks.kafka import MARK_KEY, ShardSink, describe
from effectively_once.sinks.kafka_rows import Placed
from effectively_once.sinks.kafka_shard import Row
from tests.unit.library.kafka_shard_stub import ADDRESS, Producer
from tests.unit.library.listed_store import ListedStore
from tests.unit.library.orders_world import World
from tests.unit.library.test_kafka_commit import producer

__all__ = ["producer"]
EPOCHS: list[list[Row]] = [[(b"a", b"1"), (None, b"2")], [(b"b", b"3")], [(b"c", b"4"), (b"d", b"5")], [(b"e", b"6")]]


def place(epochs: list[list[Row]], first: int = 0) -> list[Placed]:
    """Give rows offsets, with a control record behind each transaction."""
    placed, offset = [], first
    for rows in epochs:
        placed += [(offset + at, row) for at, row in enumerate(rows)]
        offset += len(rows) + 1
    return placed


@pytest.mark.parametrize("first", [0, 71])
@pytest.mark.parametrize("recorded", [1, 2, 3, 4])
def test_a_copy_ends_with_the_last_recorded_epoch(recorded: int, first: int) -> None:
    rows = cut(place(EPOCHS, first), describe(EPOCHS[recorded - 1]), ADDRESS)
    assert rows == [row for epoch in EPOCHS[:recorded] for row in epoch]


@pytest.mark.parametrize(
    ("there", "what"),
    [
        (EPOCHS[:2], "0 transactions"),
        ([*EPOCHS[:2], EPOCHS[2][1:]], "0 transactions"),
        ([*EPOCHS, EPOCHS[2]], "2 transactions"),
        ([], "0 transactions"),
    ],
    ids=["not there", "cut by retention", "twice", "empty"],
)
def test_a_topic_without_the_rows_of_that_epoch_is_not_copied(there: list[list[Row]], what: str) -> None:
    with pytest.raises(BackupError, match=what):
        cut(place(there), describe(EPOCHS[2]), ADDRESS)


def test_rows_of_the_same_number_are_told_apart_by_their_digest() -> None:
    assert cut(place(EPOCHS), describe(EPOCHS[1]), ADDRESS) == [*EPOCHS[0], *EPOCHS[1]]
    with pytest.raises(BackupError):
        cut(place(EPOCHS), Rows(rows=1, digest=describe([(b"x", b"7")]).digest), ADDRESS)


def test_what_is_encoded_is_read_again() -> None:
    rows = [row for epoch in EPOCHS for row in epoch]
    assert decode_rows(encode(rows)) == rows
    assert decode_rows(encode([])) == []


@pytest.mark.parametrize(("portion", "sizes"), [(2, [2, 1, 2, 1]), (10, [3, 2, 1]), (3, [3, 2, 1])])
def test_a_filled_shard_has_the_last_epoch_in_a_transaction_of_its_own_and_the_mark_last(
    producer: Producer, monkeypatch: pytest.MonkeyPatch, portion: int, sizes: list[int]
) -> None:
    monkeypatch.setattr(kafka, "PORTION", portion)
    rows = [row for epoch in EPOCHS[:3] for row in epoch]
    ShardSink(ADDRESS).fill(rows, len(EPOCHS[2]), 7, 3)
    assert [len(one) for one in producer.committed] == sizes
    assert [(key, value) for one in producer.committed[:-1] for _, _, key, value in one] == rows
    assert producer.committed[-1][0][2] == MARK_KEY


def test_a_shard_that_could_not_be_filled_has_no_mark(producer: Producer) -> None:
    producer.undelivered = {EPOCHS[1][0][1]: (KafkaError._MSG_TIMED_OUT, None)}
    with pytest.raises(Exception, match=r"not acknowledged|does not answer"):
        ShardSink(ADDRESS).fill([row for epoch in EPOCHS for row in epoch], 1, 7, 3)
    assert all(key != MARK_KEY for one in producer.committed for _, _, key, _ in one)


def test_rows_of_shards_that_are_no_more_are_not_left_out_of_a_copy_in_silence() -> None:
    world = World([{"id": str(number), "event_time_ms": number} for number in range(9)], 3)
    for shards in (3, 2):
        world.reshard(shards)
        world.driver().run(1)
    head = world.store.objects[world.layout.head].decode()
    manifest = BackupManifest(pipeline=world.layout.pipeline, taken_ms=0, head=head, objects={})
    copies = TopicCopies(Job(world.pipeline, world.settings), BackupLocation(ListedStore(), "memory"), print)
    with pytest.raises(BackupError, match="rows of 3 shards, and the pipeline has 2 now"):
        copies.take(manifest, world.store)
