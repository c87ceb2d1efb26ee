"""What becomes of an epoch when a transaction of Kafka fails: fenced, refused for good, or looked after by the mark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Producer as KafkaProducer

from effectively_once.errors import RefusedRowsError, SinkError, UnreachableError
from effectively_once.ledger import digest
from effectively_once.sinks import kafka
from effectively_once.sinks.kafka import ShardSink
from effectively_once.sinks.kafka_shard import Row, ShardAddress
from effectively_once.sinks.plain import PlainSink
from effectively_once.sinks.publish import FencedError, Mark, Published

ADDRESS = ShardAddress("broker:1", "counts", "accepted", 2)
ROWS: list[Row] = [(b"k", b"one"), (None, b"two"), (b"l", b"three")]
FENCED = [KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED]
MISSING = [KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC]


def kafka_error(code: int) -> KafkaException:
    return KafkaException(KafkaError(code))


@dataclass
class Broker:
    """A shard at a broker, and what goes wrong there: at the commits that come next, at the beginning after them."""

    commits: list[Exception | None] = field(default_factory=list)
    applied: bool = False
    """Whether a commit that fails takes place nevertheless."""
    ends: bool = False
    """Whether one that fails leaves the producer without a transaction."""
    begins_again: Exception | None = None
    undelivered: tuple[int, str | None] | None = None
    silent: bool = False
    mark: Mark | None = None
    opened: int = 0
    said: list[str] = field(default_factory=list)

    def open(self, _: ShardAddress) -> Producer:
        self.opened += 1
        return Producer(self)

    def read(self, address: ShardAddress, timeout_s: float) -> Mark | None:
        assert address == ADDRESS
        assert timeout_s > 0
        return self.mark

    def sink(self) -> ShardSink:
        return ShardSink(ADDRESS, self.said.append)


class Producer:
    """One of its producers. It cannot abort: nobody ever should."""

    def __init__(self, broker: Broker) -> None:
        self.broker, self.begun, self.sent = broker, False, 0

    def begin_transaction(self) -> None:
        if self.begun:
            raise self.broker.begins_again or kafka_error(KafkaError._STATE)
        self.begun = True

    def produce(
        self, topic: str, value: bytes, key: bytes | None, *, partition: int, on_delivery: Callable[..., None]
    ) -> None:
        assert partition == ADDRESS.shard
        self.sent += 1
        if self.broker.undelivered is not None and value == b"two":
            code, named = self.broker.undelivered
            on_delivery(KafkaError(code), SimpleNamespace(topic=lambda: named))
        else:
            on_delivery(None, SimpleNamespace(topic=lambda: topic))

    def flush(self, timeout_s: float) -> int:
        assert timeout_s > 0
        return len(self)

    def __len__(self) -> int:
        return self.sent if self.broker.silent else 0

    def commit_transaction(self, timeout_s: float) -> None:
        assert timeout_s > 0
        wrong = self.broker.commits.pop(0) if self.broker.commits else None
        if wrong is None or self.broker.applied:
            self.broker.mark = Mark(7, 1, len(ROWS), digest.of_rows([value for _, value in ROWS]))
        self.begun = wrong is not None and not self.broker.ends
        if wrong is not None:
            raise wrong


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    """A shard whose last epoch is 6."""
    made = Broker(mark=Mark(6, 1, 0, digest.EMPTY))
    monkeypatch.setattr(kafka, "_open", made.open)
    monkeypatch.setattr(kafka, "end_hanging", lambda *_: False)
    monkeypatch.setattr(kafka, "read_mark", made.read)
    return made


@pytest.mark.parametrize("code", FENCED)
@pytest.mark.parametrize("first", [None, KafkaError._FATAL, SystemError()])
def test_a_shard_that_another_producer_took_is_not_taken_back(
    code: int, first: int | SystemError | None, broker: Broker
) -> None:
    """Whether the commit names it, or only the call after a failure that says nothing."""
    broker.begins_again = None if first is None else kafka_error(code)
    broker.commits = [
        kafka_error(code) if first is None else first if isinstance(first, SystemError) else kafka_error(first)
    ]
    with pytest.raises(FencedError, match="sink accepted shard 2"):
        broker.sink().publish(7, 1, ROWS)
    assert (broker.opened, broker.said) == (1, ["transaction_open"])
    broker.commits, broker.begins_again = [kafka_error(code)], None
    with pytest.raises(FencedError, match="sink accepted shard 2"):
        broker.sink().begin(7, 1)


@pytest.mark.parametrize("failure", [kafka_error(KafkaError._TIMED_OUT), SystemError()])
@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize(("after", "ends"), [(None, False), (KafkaError._TIMED_OUT, False), (None, True)])
def test_of_a_commit_without_an_answer_a_new_producer_asks_the_mark(
    applied: bool, failure: Exception, after: int | None, ends: bool, broker: Broker
) -> None:
    broker.commits, broker.applied, broker.ends = [failure], applied, ends
    broker.begins_again = None if after is None else kafka_error(after)
    content, published = broker.sink().publish(7, 1, ROWS)
    assert published is (Published.BEFORE if applied else Published.NOW)
    assert (content.rows, broker.opened) == (3, 2)
    assert broker.said == ["transaction_open"] + ([] if applied else ["transaction_open", "committed"])


def test_a_broker_that_takes_no_rows_gets_no_commit(broker: Broker) -> None:
    broker.silent = True
    with pytest.raises(SinkError, match="commits of epoch 7 had an unknown outcome"):
        broker.sink().publish(7, 1, ROWS)
    assert (broker.mark, broker.said) == (Mark(6, 1, 0, digest.EMPTY), [])


@pytest.mark.parametrize("named", ["counts.accepted", "counts.accepted.progress", None])
@pytest.mark.parametrize("code", [*MISSING, KafkaError.MSG_SIZE_TOO_LARGE])
def test_what_no_repeat_helps_is_refused_at_once_and_names_the_topic(
    code: int, named: str | None, broker: Broker
) -> None:
    broker.undelivered = code, named
    large = code == KafkaError.MSG_SIZE_TOO_LARGE
    topic = named or ADDRESS.topic
    says = rf"row is larger .*topic {topic}\)" if large else f"topic {topic} does not exist.*broker:1"
    with pytest.raises(RefusedRowsError if large else SinkError, match=says):
        broker.sink().publish(7, 1, ROWS)
    assert broker.opened == 1
    assert broker.mark == Mark(6, 1, 0, digest.EMPTY)


def test_a_new_shard_whose_mark_may_not_be_there_is_no_new_shard(broker: Broker) -> None:
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
def plain(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> PlainSink:
    """A sink without transactions at the same broker."""
    made: list[dict[str, Any]] = []

    def producer(settings: dict[str, Any]) -> KafkaProducer:
        made.append(settings)
        return cast("KafkaProducer", broker.open(ADDRESS))

    monkeypatch.setattr("effectively_once.sinks.plain.Producer", producer)
    sink = PlainSink(ADDRESS)
    assert "transactional.id" not in made[0]
    assert (made[0]["bootstrap.servers"], made[0]["enable.idempotence"]) == ("broker:1", True)
    return sink


def test_a_plain_sink_sends_its_rows_as_often_as_it_is_asked(plain: PlainSink) -> None:
    for sent in (3, 6):
        content, published = plain.publish(7, 1, ROWS)
        assert (content, published) == (kafka.describe(ROWS), Published.NOW)
        assert cast("Any", plain._producer).sent == sent


def test_a_plain_sink_says_that_rows_may_be_missing(plain: PlainSink, broker: Broker) -> None:
    broker.undelivered = MISSING[0], ADDRESS.topic
    with pytest.raises(SinkError, match=r"topic counts\.accepted does not exist"):
        plain.publish(7, 1, ROWS)
    broker.undelivered = KafkaError._MSG_TIMED_OUT, ADDRESS.topic
    with pytest.raises(UnreachableError, match="broker does not answer"):
        plain.publish(7, 1, ROWS)
    broker.undelivered, broker.silent = None, True
    with pytest.raises(UnreachableError, match="broker stopped taking rows"):
        plain.publish(7, 1, ROWS)


def test_a_plain_sink_names_what_its_producer_refuses(plain: PlainSink, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise kafka_error(MISSING[1])

    monkeypatch.setattr(plain._producer, "produce", refuse)
    with pytest.raises(SinkError, match=r"topic counts\.accepted does not exist, or lacks a partition .broker:1"):
        plain.publish(7, 1, ROWS)
