"""What becomes of an epoch when a transaction of Kafka fails: fenced, refused for good, or looked after by the mark."""

from __future__ import annotations

from itertools import repeat
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError
from confluent_kafka import Producer as KafkaProducer

from effectively_once.errors import RefusedRowsError, SinkError, UnreachableError
from effectively_once.ledger import digest
from effectively_once.sinks import kafka
from effectively_once.sinks.kafka import ShardSink
from effectively_once.sinks.kafka_shard import Row
from effectively_once.sinks.plain import PlainSink
from effectively_once.sinks.publish import FencedError, Mark, Published
from tests.unit.library.kafka_shard_stub import ADDRESS, Producer, kafka_error

ROWS: list[Row] = [(b"k", b"one"), (None, b"two"), (b"l", b"three")]
BEFORE = Mark(6, 1, 0, digest.EMPTY)
FENCED = [KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED]
MISSING = [KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC]


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Producer:
    """A shard whose last epoch is 6."""
    return Producer.installed(monkeypatch, BEFORE)


@pytest.mark.parametrize("code", FENCED)
@pytest.mark.parametrize("first", [None, KafkaError._FATAL, SystemError()])
def test_a_shard_that_another_producer_took_is_not_taken_back(
    code: int, first: int | SystemError | None, broker: Producer
) -> None:
    """Whether the commit names it, or only the call after a failure that says nothing."""
    broker.begins_again = None if first is None else kafka_error(code)
    fails = code if first is None else first
    broker.commits = [fails if isinstance(fails, SystemError) else kafka_error(fails)]
    with pytest.raises(FencedError, match="sink accepted shard 2"):
        broker.sink().publish(7, 1, ROWS)
    assert (broker.asked.count("open"), broker.said) == (1, ["transaction_open"])
    broker.commits, broker.begins_again = [kafka_error(code)], None
    with pytest.raises(FencedError, match="sink accepted shard 2"):
        broker.sink().begin(7, 1)


@pytest.mark.parametrize("failure", [kafka_error(KafkaError._TIMED_OUT), SystemError()])
@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize(("after", "ends"), [(None, False), (KafkaError._TIMED_OUT, False), (None, True)])
def test_of_a_commit_without_an_answer_a_new_producer_asks_the_mark(
    applied: bool, failure: Exception, after: int | None, ends: bool, broker: Producer
) -> None:
    broker.commits, broker.applied, broker.ends = [failure], applied, ends
    broker.begins_again = None if after is None else kafka_error(after)
    content, published = broker.sink().publish(7, 1, ROWS)
    assert published is (Published.BEFORE if applied else Published.NOW)
    assert (content.rows, broker.asked.count("open")) == (3, 2)
    assert broker.said == ["transaction_open"] + ([] if applied else ["transaction_open", "committed"])


def test_a_kept_producer_that_begins_no_transaction_is_replaced_unless_it_was_fenced(broker: Producer) -> None:
    sink = broker.sink()
    sink.publish(7, 1, ROWS)
    broker.open = []
    assert sink.publish(8, 1, ROWS)[1] is Published.NOW
    assert broker.asked.count("open") == 2
    broker.open, broker.begins_again = [], kafka_error(FENCED[0])
    with pytest.raises(FencedError, match="sink accepted shard 2"):
        sink.publish(9, 1, ROWS)


@pytest.mark.parametrize("room", [1, 9], ids=["while they are sent", "when they are waited for"])
def test_a_broker_that_takes_no_rows_gets_no_commit(room: int, broker: Producer) -> None:
    broker.room, broker.leave = room, repeat(0)
    with pytest.raises(SinkError, match="commits of epoch 7 had an unknown outcome"):
        broker.sink().publish(7, 1, ROWS)
    assert (broker.mark, broker.said) == (BEFORE, [])


@pytest.mark.parametrize("named", ["counts.accepted", "counts.accepted.progress", None])
@pytest.mark.parametrize("code", [*MISSING, KafkaError.MSG_SIZE_TOO_LARGE])
def test_what_no_repeat_helps_is_refused_at_once_and_names_the_topic(
    code: int, named: str | None, broker: Producer
) -> None:
    broker.undelivered = {b"two": (code, named)}
    large = code == KafkaError.MSG_SIZE_TOO_LARGE
    topic = named or ADDRESS.topic
    says = rf"row is larger .*topic {topic}\)" if large else f"topic {topic} does not exist.*broker:1"
    with pytest.raises(RefusedRowsError if large else SinkError, match=says):
        broker.sink().publish(7, 1, ROWS)
    assert broker.asked.count("open") == 1
    assert broker.mark == BEFORE


def test_a_new_shard_whose_mark_may_not_be_there_is_no_new_shard(broker: Producer) -> None:
    broker.commits = [kafka_error(KafkaError._TIMED_OUT)]
    with pytest.raises(UnreachableError, match="whether the mark of epoch 9 was committed is not known"):
        broker.sink().begin(9, 1)
    for epoch, opened in ((6, 0), (5, 0), (7, 1)):
        broker.said.clear()
        broker.sink().begin(epoch, 1)
        assert broker.said.count("committed") == opened


class Opening:
    """A producer that is being opened; remembers what it is asked, and fails at one call."""

    refuses: tuple[str, int] | None = None

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings, self.asked = settings, list[tuple[Any, ...]]()

    def list_topics(self, topic: str, timeout: float) -> None:
        self._note("list_topics", topic, timeout)

    def init_transactions(self, timeout: float) -> None:
        self._note("init_transactions", timeout)

    def _note(self, name: str, *given: Any) -> None:
        self.asked.append((name, *given))
        if self.refuses is not None and self.refuses[0] == name:
            raise kafka_error(self.refuses[1])


@pytest.mark.parametrize("refused", ["list_topics", "init_transactions"])
@pytest.mark.parametrize(
    ("code", "kind", "says"),
    [
        (MISSING[0], SinkError, r"topic counts\.accepted\.progress does not exist.*broker:1"),
        (KafkaError._TRANSPORT, UnreachableError, "broker:1"),
    ],
)
def test_a_producer_that_cannot_be_opened_has_a_name(
    refused: str, code: int, kind: type[SinkError], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "Producer", Opening)
    monkeypatch.setattr(Opening, "refuses", (refused, code))
    with pytest.raises(kind, match=says):
        ShardSink(ADDRESS).publish(7, 1, ROWS)


def test_a_producer_that_is_opened_has_heard_of_the_broker_before_it_is_initialised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once is not enough: half a second is lost then, by chance."""
    monkeypatch.setattr(kafka, "Producer", Opening)
    opened = cast("Opening", kafka._open(ADDRESS))
    heard = ("list_topics", "counts.accepted", kafka.COMMIT_TIMEOUT_S)
    assert opened.asked == [heard, heard, ("init_transactions", kafka.COMMIT_TIMEOUT_S)]
    assert opened.settings["bootstrap.servers"] == "broker:1"
    assert opened.settings["transactional.id"] == ADDRESS.transactional_id


@pytest.fixture
def plain(broker: Producer, monkeypatch: pytest.MonkeyPatch) -> PlainSink:
    """A sink without transactions at the same broker: what it sends is in none."""

    def producer(settings: dict[str, Any]) -> KafkaProducer:
        assert "transactional.id" not in settings
        assert (settings["bootstrap.servers"], settings["enable.idempotence"]) == ("broker:1", True)
        broker.open = []
        return cast("KafkaProducer", broker)

    monkeypatch.setattr("effectively_once.sinks.plain.Producer", producer)
    return PlainSink(ADDRESS)


def test_a_plain_sink_sends_its_rows_as_often_as_it_is_asked(plain: PlainSink, broker: Producer) -> None:
    for times in (1, 2):
        content, published = plain.publish(7, 1, ROWS)
        assert (content, published) == (kafka.describe(ROWS), Published.NOW)
        assert broker.open == [(ADDRESS.topic, ADDRESS.shard, key, value) for key, value in ROWS * times]


def test_a_plain_sink_says_that_rows_may_be_missing(plain: PlainSink, broker: Producer) -> None:
    broker.undelivered = {b"two": (MISSING[0], ADDRESS.topic)}
    with pytest.raises(SinkError, match=r"topic counts\.accepted does not exist"):
        plain.publish(7, 1, ROWS)
    broker.undelivered = {b"two": (KafkaError._MSG_TIMED_OUT, ADDRESS.topic)}
    with pytest.raises(UnreachableError, match="broker does not answer"):
        plain.publish(7, 1, ROWS)
    broker.undelivered, broker.leave = {}, repeat(0)
    with pytest.raises(UnreachableError, match="broker stopped taking rows"):
        plain.publish(7, 1, ROWS)


def test_a_plain_sink_names_what_its_producer_refuses(plain: PlainSink, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise kafka_error(MISSING[1])

    monkeypatch.setattr(plain._producer, "produce", refuse)
    with pytest.raises(SinkError, match=r"topic counts\.accepted does not exist, or lacks a partition .broker:1"):
        plain.publish(7, 1, ROWS)
