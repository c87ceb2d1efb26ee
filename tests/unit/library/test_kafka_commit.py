"""What a shard of a Kafka sink hands to its producer for an epoch: rows in order and their mark, in one transaction."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from effectively_once.errors import SinkError, UnreachableError
from effectively_once.ledger import digest
from effectively_once.sinks import kafka, kafka_shard
from effectively_once.sinks.kafka import MARK_KEY, ShardSink
from effectively_once.sinks.kafka_shard import Row, ShardAddress, read_mark, read_seen_mark
from effectively_once.sinks.publish import Mark, Published

SHARD = 2
ADDRESS = ShardAddress("localhost:1", "counts", "accepted", SHARD)
ROWS: list[Row] = [(b"b" if n % 2 else None, f"row {n}".encode()) for n in range(150)]


@dataclass
class Producer:
    """A producer with transactions, in memory; the row `refused` is not delivered."""

    committed: list[list[tuple[str, int, bytes | None, bytes]]] = field(default_factory=list)
    open: list[tuple[str, int, bytes | None, bytes]] | None = None
    refused: bytes | None = None
    begun: int = 0

    def begin_transaction(self) -> None:
        if self.open:
            raise KafkaException(KafkaError(KafkaError._STATE))
        self.begun += 1
        self.open = []

    def produce(
        self,
        topic: str,
        value: bytes,
        key: bytes | None,
        partition: int = -1,
        *,
        on_delivery: Callable[..., None],
        **more: Any,
    ) -> None:
        assert self.open is not None, "outside of a transaction"
        assert not more, "a row has nothing but key and value"
        if value == self.refused:
            message = SimpleNamespace(topic=lambda: topic)
            on_delivery(KafkaError(KafkaError._MSG_TIMED_OUT), message)
            return
        self.open.append((topic, partition, key, value))

    def commit_transaction(self, _timeout_s: float) -> None:
        assert self.open is not None
        self.committed.append(self.open)
        self.open = None

    def poll(self, _timeout_s: float) -> int:
        return 0

    def flush(self, _timeout_s: float) -> int:
        return 0

    def __len__(self) -> int:
        return 0


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> Producer:
    """A broker whose shard has no mark."""
    made = Producer()
    monkeypatch.setattr(kafka, "_open", lambda _: made)
    monkeypatch.setattr(kafka, "end_hanging", lambda *_: False)
    monkeypatch.setattr(kafka, "read_mark", lambda *_: None)
    return made


@pytest.mark.parametrize("rows", [ROWS, ROWS[:1], []])
def test_rows_and_mark_are_one_transaction_in_the_shards_partition(producer: Producer, rows: list[Row]) -> None:
    content, published = ShardSink(ADDRESS).publish(0, 3, rows)
    assert published is Published.NOW
    ((*sent, mark),) = producer.committed
    assert sent == [("counts.accepted", SHARD, key, value) for key, value in rows]
    assert mark[:3] == ("counts.accepted.progress", SHARD, MARK_KEY)
    told = {"epoch": 0, "generation": 3, "rows": len(rows), "digest": digest.of_rows([value for _, value in rows])}
    assert json.loads(mark[3]) == told
    assert (content.rows, content.digest) == (told["rows"], told["digest"])
    assert content.bytes == sum(len(key or b"") + len(value) for key, value in rows)


def test_the_transaction_is_announced_when_nothing_of_it_is_visible_yet(producer: Producer) -> None:
    seen: list[tuple[str, int, int]] = []
    sink = ShardSink(ADDRESS, lambda what: seen.append((what, len(producer.committed), len(producer.open or []))))
    sink.publish(0, 1, ROWS)
    assert seen == [("transaction_open", 0, len(ROWS) + 1), ("committed", 1, 0)]


def test_a_transaction_that_lacks_a_row_is_not_committed(producer: Producer) -> None:
    """Its outcome counts as unknown; the next producer ends it."""
    producer.refused = ROWS[5][1]
    with pytest.raises(SinkError, match="commits of epoch 0 had an unknown outcome"):
        ShardSink(ADDRESS).publish(0, 1, ROWS)
    assert producer.committed == []


def test_after_an_error_the_next_epoch_begins_with_a_look_at_the_mark(
    producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the epoch that failed nobody knows; it would be passed over."""
    asked: list[ShardAddress] = []
    there: list[Mark] = []

    def read(address: ShardAddress, _: float) -> Mark | None:
        asked.append(address)
        return there[-1] if there else None

    monkeypatch.setattr(kafka, "read_mark", read)
    sink = ShardSink(ADDRESS)
    producer.refused = ROWS[5][1]
    with pytest.raises(SinkError):
        sink.publish(0, 1, ROWS)
    producer.refused, producer.open = None, None
    asked.clear()
    there.append(Mark(0, 2, 0, digest.EMPTY))
    assert sink.publish(1, 1, ROWS)[1] is Published.NOW
    assert asked == [ADDRESS]


def test_a_shard_that_is_new_to_a_chain_begins_after_its_last_epoch(
    producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gap that is lawful: no epoch before was published to it. Asked again, it has its mark."""
    ShardSink(ADDRESS).begin(6, 3)
    ((mark,),) = producer.committed
    assert json.loads(mark[3]) == {"epoch": 6, "generation": 3, "rows": 0, "digest": digest.EMPTY}
    monkeypatch.setattr(kafka, "read_mark", lambda *_: Mark(6, 3, 0, digest.EMPTY))
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


def test_only_the_epoch_after_its_last_is_committed_without_a_look_at_the_mark(
    producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mark that another one wrote tells of a producer in between, which has fenced this one."""
    asked: list[ShardAddress] = []
    last = Mark(4, 1, 0, digest.EMPTY)

    def read(address: ShardAddress, _: float) -> Mark:
        asked.append(address)
        return last

    monkeypatch.setattr(kafka, "read_mark", read)
    sink = ShardSink(ADDRESS)
    assert sink.publish(4, 1, [])[1] is Published.BEFORE
    assert sink.publish(5, 1, ROWS)[1] is Published.NOW
    assert len(asked) == 2, "what was published before is no commit of this producer"
    assert sink.publish(6, 1, ROWS)[1] is Published.NOW
    assert len(asked) == 2


@pytest.mark.parametrize(("read", "up_to"), [(read_mark, 6), (read_seen_mark, 4)])
def test_a_mark_is_a_committed_one_and_the_last_one_where_it_decides(
    read: Callable[[ShardAddress], Mark | None], up_to: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One in an open transaction may be aborted yet; one behind that of somebody else is committed, and not seen."""
    asked: list[tuple[str, int]] = []

    class Consumer:
        def __init__(self, settings: dict[str, Any]) -> None:
            self.isolation = settings["isolation.level"]

        def get_watermark_offsets(self, _: Any, timeout: float) -> tuple[int, int]:
            return 0, 4 if self.isolation == "read_committed" else 6

        def assign(self, _: Any) -> None: ...

        def close(self) -> None: ...

    monkeypatch.setattr(kafka_shard, "Consumer", Consumer)
    monkeypatch.setattr(kafka_shard, "_last", lambda consumer, end, *_: asked.append((consumer.isolation, end)))
    assert read(ADDRESS) is None
    assert asked == [("read_committed", up_to)]


def test_a_kept_producer_whose_last_transaction_was_left_open_is_replaced(
    producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would decide on those rows again."""
    events: list[object] = []
    hangs = [False, True, False]

    def end(address: ShardAddress, timeout_s: float) -> bool:
        assert (address, timeout_s) == (ADDRESS, kafka.COMMIT_TIMEOUT_S)
        events.append("asked")
        return hangs.pop(0)

    def read(address: ShardAddress, _: float) -> Mark | None:
        events.append("read")
        return None if len(producer.committed) == 0 else Mark(0, 1, 0, digest.EMPTY)

    monkeypatch.setattr(kafka, "end_hanging", end)
    monkeypatch.setattr(kafka, "read_mark", read)
    sink = ShardSink(ADDRESS)
    sink.publish(0, 1, [])
    assert events == ["asked", "read"], "there was no kept one, and the mark may be hidden"
    assert sink.publish(1, 1, ROWS)[1] is Published.NOW
    assert events == ["asked", "read", "asked", "asked", "read"]


def test_a_kept_producer_of_which_nothing_can_be_told_is_replaced_and_nothing_else_goes_on(
    producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening one waits for the broker; where there is none to replace, the shard cannot be published."""
    sink = ShardSink(ADDRESS)
    sink.publish(0, 1, [])
    answers: list[bool | Exception] = [UnreachableError("away", "b", "wait"), False]

    def end(*_: object) -> bool:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(kafka, "end_hanging", end)
    monkeypatch.setattr(kafka, "read_mark", lambda *_: Mark(0, 1, 0, digest.EMPTY))
    assert sink.publish(1, 1, ROWS)[1] is Published.NOW
    answers[:] = [UnreachableError("away", "b", "wait")] * 2
    with pytest.raises(UnreachableError, match="away"):
        sink.publish(2, 1, ROWS)
    assert len(producer.committed) == 2
