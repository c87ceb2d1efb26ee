"""The Kafka sink: one transactional producer per shard; rows and progress mark in one transaction (R8).

Topics: `<pipeline>.<sink>` holds rows, `<pipeline>.<sink>.progress` (compacted, partition = shard) the marks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import chain

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from effectively_once import digest
from effectively_once.errors import RefusedRowsError, SinkError, UnreachableError
from effectively_once.leaders import ask_again
from effectively_once.ledger.records import Rows
from effectively_once.sinks.publish import Committed, FencedError, Mark
from effectively_once.sinks.transaction import TransactionalSink

COMMIT_TIMEOUT_S = 20.0
TRANSACTION_TIMEOUT_S = 60
PROPAGATION_MS = 30_000
"""How long a topic may be unknown to the broker before it counts as missing: longer than a broker takes to restart."""
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
_MISSING = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC)
Row = tuple[bytes | None, bytes]
Record = tuple[str, bytes | None, bytes]
"""Topic, key and value."""


@dataclass(frozen=True, slots=True)
class ShardAddress:
    """One shard of one Kafka sink."""

    bootstrap: str
    pipeline: str
    sink: str
    shard: int
    transaction_timeout_s: int = TRANSACTION_TIMEOUT_S

    @property
    def topic(self) -> str:
        """Where rows go."""
        return f"{self.pipeline}.{self.sink}"

    @property
    def progress(self) -> str:
        """Where marks go."""
        return f"{self.topic}.progress"

    @property
    def transactional_id(self) -> str:
        """One per shard, the same in every driver: whoever initialises it fences the others."""
        return f"{self.pipeline}.{self.sink}.{self.shard}"

    def records(self, rows: Sequence[Row]) -> Iterator[Record]:
        """Yield rows with their topic."""
        return ((self.topic, key, value) for key, value in rows)

    def __str__(self) -> str:
        """As messages name it."""
        return f"sink {self.sink} shard {self.shard}"


Failure = tuple[KafkaError, Message]
"""A message that was not delivered."""


class ShardSink(TransactionalSink[Sequence[Row]]):
    """Publishes the epochs of one shard; keeps its producer between them."""

    def __init__(self, address: ShardAddress, announce: Callable[[str], None] = lambda _: None) -> None:
        super().__init__(str(address), announce)
        self.address = address
        self._producer: Producer | None = None

    def _described(self, rows: Sequence[Row], like: str = digest.EMPTY) -> Rows:
        return described(rows, like)

    def _open(self, generation: int) -> None:  # noqa: ARG002 - the transactional id fences
        self._producer = _opened(self.address)

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
            if not produced(producer, self.address.shard, records, failures) or not flushed(producer):
                return Committed.UNKNOWN
            self.announce("transaction_open")
            if failures:
                raise KafkaException(failures[0][0])
            producer.commit_transaction(COMMIT_TIMEOUT_S)
        except (KafkaException, SystemError) as error:
            # SystemError: confluent-kafka raises a fatal error out of a poll, and a delivery report of the same poll
            # finds that exception pending.
            if _fenced(producer, error):
                return Committed.FENCED
            for cause, message in failures:
                self._refuse_what_no_repeat_helps(cause, message.topic() or self.address.topic)
            # Whatever else went wrong: the producer that publish() opens next ends this transaction and reads the mark.
            return Committed.UNKNOWN
        self.announce("committed")
        return Committed.YES

    def begin(self, epoch: int, generation: int) -> None:
        """Give a shard that is new to a chain the mark of its last recorded epoch, over nothing; again, it is a no-op.

        Raises:
            FencedError: another producer took the shard meanwhile.
            PipelineError: as `publish` does.

        """
        self._kept = None
        self._open(generation)
        mark = self._read_mark()
        if mark is not None and mark.epoch >= epoch:
            return
        match self._commit(Mark(epoch, generation, 0, digest.EMPTY), ()):
            case Committed.FENCED:
                raise FencedError(str(self.address))
            case Committed.UNKNOWN:
                raise UnreachableError(
                    f"whether the mark of epoch {epoch} was committed is not known",
                    str(self.address),
                    "Check the broker; then run this again.",
                )

    def _refuse_what_no_repeat_helps(self, cause: KafkaError, topic: str) -> None:
        if cause.code() in _MISSING:
            raise unreachable(cause, self.address.bootstrap, topic)
        if cause.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            raise RefusedRowsError(
                "a row is larger than the topic takes",
                f"topic {topic}",
                "Raise its max.message.bytes; nothing was lost, start the pipeline again.",
            )


def described(rows: Sequence[Row], like: str = digest.EMPTY) -> Rows:
    """Count messages, and digest them in the form of the digest `like`; their bytes are those of keys and values."""
    size = sum(len(value) + len(key or b"") for key, value in rows)
    return Rows(rows=len(rows), digest=digest.of_rows([value for _, value in rows], like), bytes=size)


def read_mark(address: ShardAddress, timeout_s: float = 20.0) -> Mark | None:
    """Read the last committed mark of a shard: its progress partition up to the high watermark, or an error (R8).

    An open transaction hides what was committed behind it. One of the shard's own is ended by whoever opens a producer
    before it asks; that of somebody else is waited for.

    Raises:
        UnreachableError: the end was not reached in time; no mark is not the same as none found yet.
        SinkError: the progress topic does not exist.

    """
    return _mark(address, timeout_s, "read_uncommitted")


def seen_mark(address: ShardAddress, timeout_s: float = 20.0) -> Mark | None:
    """Read the last mark that committed readers see by now: an open transaction may hide a later one.

    For those who disturb nobody, so that a transaction of the shard's own may be open. Raises what `read_mark` raises.
    """
    return _mark(address, timeout_s, "read_committed")


def _mark(address: ShardAddress, timeout_s: float, up_to: str) -> Mark | None:
    where = TopicPartition(address.progress, address.shard, OFFSET_BEGINNING)
    last: Mark | None = None
    try:
        # What a consumer may read tells it where its partition ends. One after the other: where two connected at once,
        # one of seven waited a second for it on a busy machine.
        with closing(_consumer(address.bootstrap, up_to)) as asking:
            low, high = ends(asking, where, timeout_s)
        with closing(_consumer(address.bootstrap, "read_committed")) as consumer:
            # One mark and one control record an epoch: the last 64 offsets hold a mark unless the tail was compacted
            # away.
            for start in (max(low, high - 64), low):
                consumer.assign([TopicPartition(address.progress, address.shard, start)])
                last = _last(consumer, high, timeout_s, address)
                if last is not None or start == low:
                    break
    except KafkaException as error:
        raise unreachable(error.args[0], address.bootstrap, address.progress) from error
    return last


def _consumer(bootstrap: str, isolation: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "effectively-once.marks",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 10,
            "log_level": 0,
        }
    )


def ends(consumer: Consumer, where: TopicPartition, timeout_s: float) -> tuple[int, int]:
    """First offset of a partition, and where what this consumer may read ends; a changing leader is waited for."""
    asked: tuple[int, int] = ask_again(timeout_s)(consumer.get_watermark_offsets, where, timeout=timeout_s)
    return asked


def unreachable(error: KafkaError, bootstrap: str, topic: str) -> Exception:
    """Return the named error for what the client says."""
    if error.code() in _MISSING:
        return SinkError(
            f"topic {topic} does not exist, or lacks a partition",
            bootstrap,
            "Run `effectively-once create` or restore the topic.",
        )
    return UnreachableError(
        f"the Kafka broker does not answer: {error.str()}",
        bootstrap,
        "Check that it runs and that the address is right; nothing was lost, start the pipeline again.",
    )


def _fenced(producer: Producer, error: KafkaException | SystemError) -> bool:
    """Whether another producer took over. The first call to notice names it; produce() and delivery reports do not."""
    if isinstance(error, KafkaException) and error.args[0].code() in _FENCED:
        return True
    try:
        # Refused within a transaction; a producer that is broken for good says here why. It is not used again.
        producer.begin_transaction()
    except KafkaException as told:
        return told.args[0].code() in _FENCED
    return False


def _opened(address: ShardAddress) -> Producer:
    producer = Producer(
        {
            **CLIENT,
            "bootstrap.servers": address.bootstrap,
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


def produced(producer: Producer, partition: int, records: Iterable[Record], failures: list[Failure]) -> bool:
    """Hand records to the producer; False when the broker stopped taking them."""

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append((error, message))

    for topic, key, value in records:
        while True:
            try:
                producer.produce(topic, value, key, partition=partition, on_delivery=delivered)
                break
            except BufferError:
                # The queue is full of rows that the broker has not acknowledged: wait for it, as long as it goes on.
                waiting = len(producer)
                if producer.poll(COMMIT_TIMEOUT_S) == 0 and len(producer) >= waiting:
                    return False
    return True


def flushed(producer: Producer) -> bool:
    """Wait until every row is acknowledged, as long as the broker goes on acknowledging; False when it stopped."""
    left = len(producer)
    while left:
        now = producer.flush(COMMIT_TIMEOUT_S)
        if now >= left:
            return False
        left = now
    return True


def _last(consumer: Consumer, end: int, timeout_s: float, address: ShardAddress) -> Mark | None:
    """Read up to an end that was asked for before.

    A fetch alone does not tell where a partition ends: a broker that has just become its leader holds every record, but
    hands out those only that it knows to be committed, and the last ones some moments later. To that question it
    answers that it does not know yet (KIP-207).
    """
    last, reached = None, 0
    while True:
        message = consumer.poll(timeout_s)
        if message is None:
            raise UnreachableError(
                f"the end of {address.progress} partition {address.shard} was not reached in {timeout_s:.0f} s: read "
                f"up to offset {reached} of {end}",
                address.bootstrap,
                "Check the broker, and whether a transaction of somebody else is open in that partition "
                "(`kafka-transactions.sh describe-producers`); abort it, then start the pipeline again.",
            )
        error = message.error()
        if error is None:
            last = Mark(**json.loads(message.value()))
        elif error.code() == KafkaError._PARTITION_EOF:
            reached = message.offset() or 0
            if reached >= end:
                return last
        else:
            raise unreachable(error, address.bootstrap, address.progress)
