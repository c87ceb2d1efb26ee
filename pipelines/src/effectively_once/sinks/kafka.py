"""The Kafka sink: one transactional producer per shard; rows and progress mark in one transaction (R8).

Topics: `<pipeline>.<sink>` holds rows, `<pipeline>.<sink>.progress` (compacted, partition = shard) the marks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from itertools import chain

from confluent_kafka import (
    KafkaError,
    KafkaException,
    Message,
    Producer,
)

from effectively_once.errors import PipelineError, RefusedRowsError, UnreachableError
from effectively_once.kafka_client import client_config
from effectively_once.ledger import digest
from effectively_once.ledger.rows import Rows
from effectively_once.sinks.hanging import end_hanging
from effectively_once.sinks.kafka_shard import MISSING, Record, Row, ShardAddress, read_mark, unreachable
from effectively_once.sinks.publish import Committed, Mark
from effectively_once.sinks.publish import begin as begin_shard
from effectively_once.sinks.transaction import TransactionalSink

COMMIT_TIMEOUT_S = 20.0
PROPAGATION_MS = 30_000
"""How long a topic may be unknown to the broker before it counts as missing: longer than a broker takes to restart."""
PORTION = 10_000
"""Rows of a transaction that fills a topic: done within its time-out."""
MESSAGE_BYTES_MAX = 100_000_000
"""The producer's own limit, out of the way: what a topic takes is the topic's setting, and its refusal names it."""
CLIENT: dict[str, str | int | float | bool] = {
    "compression.type": "lz4",
    "linger.ms": 5,
    "queue.buffering.max.messages": 2_000_000,
    "queue.buffering.max.kbytes": 1_048_576,
    "log_level": 0,
    "topic.metadata.propagation.max.ms": PROPAGATION_MS,
    "message.max.bytes": MESSAGE_BYTES_MAX,
    "retry.backoff.ms": 10,
    "reconnect.backoff.ms": 10,
    # A call of Python for each delivered message would take as long as handing it over.
    "delivery.report.only.error": True,
}
"""What every producer of a sink is set to."""
MARK_KEY = b"mark"
_FENCED = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)


Failure = tuple[KafkaError, Message]
"""A message that was not delivered."""


class ShardSink(TransactionalSink[Sequence[Row]]):
    """Publishes the epochs of one shard; keeps its producer between them."""

    def __init__(self, address: ShardAddress, announce: Callable[[str], None] = lambda _: None) -> None:
        super().__init__(str(address), announce)
        self.address = address
        self._producer: Producer | None = None

    def _describe(self, rows: Sequence[Row], like: str = digest.EMPTY) -> Rows:
        return describe(rows, like)

    def _open(self, generation: int) -> None:  # noqa: ARG002 - the transactional id fences
        self._producer = _open(self.address)

    def _end_hanging(self, *, kept: bool) -> bool:
        try:
            ended = end_hanging(self.address, COMMIT_TIMEOUT_S)
        except PipelineError:
            # Opening a producer waits for the broker, and names what is wrong.
            if not kept:
                raise
            return True
        if ended and not kept:
            # Where it was ended by a producer of the shard's own, that one fenced the one that was just opened.
            self._producer = _open(self.address)
        return ended

    def _read_mark(self) -> Mark | None:
        return read_mark(self.address, COMMIT_TIMEOUT_S)

    def _commit(self, mark: Mark, rows: Sequence[Row]) -> Committed:
        producer = self._producer
        assert producer is not None  # noqa: S101 - publish() opens before it commits
        failures: list[Failure] = []
        try:
            producer.begin_transaction()
            body = json.dumps(asdict(mark), separators=(",", ":")).encode()
            records = chain(self.address.records(rows), [(self.address.progress, MARK_KEY, body)])
            if not produce(producer, self.address.shard, records, failures) or not flush(producer):
                return Committed.UNKNOWN
            self.announce("transaction_open")
            if failures:
                raise KafkaException(failures[0][0])
            producer.commit_transaction(COMMIT_TIMEOUT_S)
        except (KafkaException, SystemError) as error:
            # SystemError: confluent-kafka raises a fatal error out of a poll, and a delivery report of the same poll
            # finds that exception pending.
            if _is_fenced(producer, error):
                return Committed.FENCED
            for cause, message in failures:
                self._refuse_what_no_repeat_helps(cause, message.topic() or self.address.topic)
            # Whatever else went wrong: the producer that publish() opens next ends this transaction and reads the mark.
            return Committed.UNKNOWN
        self.announce("committed")
        return Committed.YES

    def begin(self, epoch: int, generation: int) -> Mark:
        """Give a shard that is new to a chain the mark of its last recorded epoch, over nothing; again, it is a no-op.

        Returns:
            The mark that is there now.

        Raises:
            FencedError: another producer took the shard meanwhile.
            PipelineError: as `publish` does.

        """
        self._kept = None
        step = begin_shard(Mark(epoch, generation, 0, digest.EMPTY), str(self.address))
        request = next(step)
        try:
            while True:
                request = step.send(self._answer(request, ()))
        except StopIteration as end:
            mark: Mark = end.value
        return mark

    def fill(self, rows: Sequence[Row], last: int, epoch: int, generation: int) -> None:
        """Fill a shard that is empty, its last rows in a transaction of their own, then give it the mark of an epoch.

        Where it breaks off there is no mark: neither a start nor another `fill` takes the shard for whole.

        Raises:
            UnreachableError: the broker did not take all rows.
            FencedError, PipelineError: as `begin` does.

        """
        self._kept = None
        self._open(generation)
        producer = self._producer
        assert producer is not None  # noqa: S101 - it was opened
        rest = len(rows) - last
        for begin in [*range(0, rest, PORTION), *([rest] if last else [])]:
            portion = rows[begin : min(begin + PORTION, rest) if begin < rest else None]
            failures: list[Failure] = []
            try:
                producer.begin_transaction()
                done = produce(producer, self.address.shard, self.address.records(portion), failures)
                if not done or not flush(producer) or failures:
                    raise UnreachableError(
                        f"{len(portion):,} rows were not acknowledged",
                        str(self.address),
                        "Check the broker. Delete the sink's topics, make them again, and restore again.",
                    )
                producer.commit_transaction(COMMIT_TIMEOUT_S)
            except KafkaException as error:
                raise unreachable(error.args[0], self.address.bootstrap, self.address.topic) from error
        self.begin(epoch, generation)

    def _refuse_what_no_repeat_helps(self, cause: KafkaError, topic: str) -> None:
        if cause.code() in MISSING:
            raise unreachable(cause, self.address.bootstrap, topic)
        if cause.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            raise RefusedRowsError(
                "a row is larger than the topic takes",
                f"topic {topic}",
                "Raise its max.message.bytes; nothing was lost, start the pipeline again.",
            )


def describe(rows: Sequence[Row], like: str = digest.EMPTY) -> Rows:
    """Count messages, and digest them in the form of the digest `like`; their bytes are those of keys and values."""
    size = sum(len(value) + len(key or b"") for key, value in rows)
    return Rows(rows=len(rows), digest=digest.of_rows([value for _, value in rows], like), bytes=size)


def _is_fenced(producer: Producer, error: KafkaException | SystemError) -> bool:
    """Whether another producer took over. The first call to notice names it; produce() and delivery reports do not."""
    if isinstance(error, KafkaException) and error.args[0].code() in _FENCED:
        return True
    try:
        # Refused within a transaction; a producer that is broken for good says here why. It is not used again.
        producer.begin_transaction()
    except KafkaException as told:
        return told.args[0].code() in _FENCED
    return False


def _open(address: ShardAddress) -> Producer:
    producer = Producer(
        {
            **client_config(address.bootstrap),
            **CLIENT,
            "transactional.id": address.transactional_id,
            "transaction.timeout.ms": address.transaction_timeout_s * 1000,
        }
    )
    try:
        # librdkafka asks for a producer id as soon as it has heard of the coordinator, and, when the connection is not
        # up by then, again after a fixed 500 ms. Two metadata requests first: measured 21 ms instead of 20 or 510 by
        # chance.
        producer.list_topics(address.topic, timeout=COMMIT_TIMEOUT_S)
        producer.list_topics(address.topic, timeout=COMMIT_TIMEOUT_S)
        producer.init_transactions(COMMIT_TIMEOUT_S)
    except KafkaException as error:
        raise unreachable(error.args[0], address.bootstrap, address.progress) from error
    return producer


def produce(producer: Producer, partition: int, records: Iterable[Record], failures: list[Failure]) -> bool:
    """Hand records to the producer; False when the broker stopped taking them."""

    def take_report(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append((error, message))

    for topic, key, value in records:
        while True:
            try:
                producer.produce(topic, value, key, partition=partition, on_delivery=take_report)
                break
            except BufferError:
                # The queue is full of rows that the broker has not acknowledged: wait for it, as long as it goes on.
                waiting = len(producer)
                if producer.poll(COMMIT_TIMEOUT_S) == 0 and len(producer) >= waiting:
                    return False
    return True


def flush(producer: Producer) -> bool:
    """Wait until every row is acknowledged, as long as the broker goes on acknowledging; False when it stopped."""
    left = len(producer)
    while left:
        now = producer.flush(COMMIT_TIMEOUT_S)
        if now >= left:
            return False
        left = now
    return True
