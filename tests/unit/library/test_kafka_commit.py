"""What a shard of a Kafka sink hands to its producer for an epoch: rows in order and their mark, in one transaction."""

from __future__ import annotations

import json
from itertools import chain, repeat

import pytest
from confluent_kafka import KafkaError

from effectively_once.errors import SinkError, UnreachableError
from effectively_once.ledger import digest
from effectively_once.sinks.kafka import MARK_KEY, ShardSink
from effectively_once.sinks.kafka_shard import Row, ShardAddress
from effectively_once.sinks.publish import Mark, Published
from tests.unit.library.kafka_shard_stub import ADDRESS, Producer

ROWS: list[Row] = [(b"b" if n % 2 else None, f"row {n}".encode()) for n in range(150)]
LOST = {ROWS[5][1]: (KafkaError._MSG_TIMED_OUT, ADDRESS.topic)}


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> Producer:
    """One of a shard that has no mark."""
    return Producer.installed(monkeypatch)


@pytest.mark.parametrize("rows", [ROWS, ROWS[:1], []])
def test_rows_and_mark_are_one_transaction_in_the_shards_partition(producer: Producer, rows: list[Row]) -> None:
    content, published = ShardSink(ADDRESS).publish(0, 3, rows)
    assert published is Published.NOW
    ((*sent, mark),) = producer.committed
    assert sent == [("counts.accepted", ADDRESS.shard, key, value) for key, value in rows]
    assert mark[:3] == ("counts.accepted.progress", ADDRESS.shard, MARK_KEY)
    told = {"epoch": 0, "generation": 3, "rows": len(rows), "digest": digest.of_rows([value for _, value in rows])}
    assert json.loads(mark[3]) == told
    assert (content.rows, content.digest) == (told["rows"], told["digest"])
    assert content.bytes == sum(len(key or b"") + len(value) for key, value in rows)


@pytest.mark.parametrize("pace", [1, 2, 3])
def test_rows_beyond_the_queue_are_sent_in_order_once(producer: Producer, pace: int) -> None:
    """Waited for as long as the broker takes some."""
    producer.room, producer.leave = 3, repeat(pace)
    assert ShardSink(ADDRESS).publish(0, 1, ROWS)[1] is Published.NOW
    assert [[(key, value) for _, _, key, value in sent[:-1]] for sent in producer.committed] == [ROWS]


def test_a_transaction_that_the_broker_stopped_taking_rows_of_is_not_committed(producer: Producer) -> None:
    """Nor where it takes some again a moment later: a new producer sends all of them."""
    producer.room, producer.leave = 3, chain([0], repeat(3))
    assert ShardSink(ADDRESS).publish(0, 1, ROWS)[1] is Published.NOW
    assert producer.asked.count("open") == 2
    assert [len(sent) for sent in producer.committed] == [len(ROWS) + 1]


def test_the_transaction_is_announced_when_nothing_of_it_is_visible_yet(producer: Producer) -> None:
    seen: list[tuple[str, int, int]] = []
    sink = ShardSink(ADDRESS, lambda what: seen.append((what, len(producer.committed), len(producer.open or []))))
    sink.publish(0, 1, ROWS)
    assert seen == [("transaction_open", 0, len(ROWS) + 1), ("committed", 1, 0)]


def test_a_transaction_that_lacks_a_row_is_not_committed(producer: Producer) -> None:
    """Its outcome counts as unknown; the next producer ends it."""
    producer.undelivered = LOST
    with pytest.raises(SinkError, match="commits of epoch 0 had an unknown outcome"):
        ShardSink(ADDRESS).publish(0, 1, ROWS)
    assert producer.committed == []


def test_after_an_error_the_next_epoch_begins_with_a_look_at_the_mark(producer: Producer) -> None:
    """Of the epoch that failed nobody knows; it would be passed over."""
    sink = ShardSink(ADDRESS)
    producer.undelivered = LOST
    with pytest.raises(SinkError):
        sink.publish(0, 1, ROWS)
    producer.undelivered, producer.mark = {}, Mark(0, 2, 0, digest.EMPTY)
    producer.asked.clear()
    assert sink.publish(1, 1, ROWS)[1] is Published.NOW
    assert producer.asked == ["open", "hangs", "mark"]


def test_a_shard_that_is_new_to_a_chain_begins_after_its_last_epoch(producer: Producer) -> None:
    """A gap that is lawful: no epoch before was published to it. Asked again, it has its mark."""
    ShardSink(ADDRESS).begin(6, 3)
    ((mark,),) = producer.committed
    assert json.loads(mark[3]) == {"epoch": 6, "generation": 3, "rows": 0, "digest": digest.EMPTY}
    sink = ShardSink(ADDRESS)
    sink.begin(6, 3)
    assert len(producer.committed) == 1
    assert sink.publish(7, 3, ROWS)[1] is Published.NOW


def test_every_shard_has_a_transactional_id_of_its_own() -> None:
    """Whoever initialises it fences the others, and must not fence another shard."""
    ids = {
        ShardAddress("localhost:1", pipeline, sink, shard).transactional_id
        for pipeline in ("counts", "clicks")
        for sink in ("accepted", "late")
        for shard in range(3)
    }
    assert len(ids) == 12
    assert ShardAddress("other:1", "counts", "late", 1).transactional_id in ids


def test_only_the_epoch_after_its_last_is_committed_without_a_look_at_the_mark(producer: Producer) -> None:
    """A mark that another one wrote tells of a producer in between, which has fenced this one."""
    producer.mark = Mark(4, 1, 0, digest.EMPTY)
    sink = ShardSink(ADDRESS)
    assert sink.publish(4, 1, [])[1] is Published.BEFORE
    assert sink.publish(5, 1, ROWS)[1] is Published.NOW
    assert producer.asked.count("mark") == 2, "what was published before is no commit of this producer"
    assert sink.publish(6, 1, ROWS)[1] is Published.NOW
    assert producer.asked.count("mark") == 2


def test_a_kept_producer_whose_last_transaction_was_left_open_is_replaced(producer: Producer) -> None:
    """It would decide on those rows again."""
    sink = ShardSink(ADDRESS)
    sink.publish(0, 1, [])
    assert producer.asked == ["open", "hangs", "mark"], "there was no kept one, and the mark may be hidden"
    producer.asked.clear()
    producer.hangs = [True, False]
    assert sink.publish(1, 1, ROWS)[1] is Published.NOW
    assert producer.asked == ["hangs", "open", "hangs", "mark"]


def test_another_producer_is_opened_after_what_hangs_was_ended(producer: Producer) -> None:
    """The one that was opened before is fenced by that."""
    producer.hangs = [True]
    assert ShardSink(ADDRESS).publish(0, 1, ROWS)[1] is Published.NOW
    assert producer.asked == ["open", "hangs", "open", "mark"]


def test_a_kept_producer_of_which_nothing_can_be_told_is_replaced_and_nothing_else_goes_on(producer: Producer) -> None:
    """Opening one waits for the broker; where there is none to replace, the shard cannot be published."""
    sink = ShardSink(ADDRESS)
    sink.publish(0, 1, [])
    producer.hangs = [UnreachableError("away", "b", "wait"), False]
    assert sink.publish(1, 1, ROWS)[1] is Published.NOW
    producer.hangs = [UnreachableError("away", "b", "wait")] * 2
    with pytest.raises(UnreachableError, match="away"):
        sink.publish(2, 1, ROWS)
    assert len(producer.committed) == 2
