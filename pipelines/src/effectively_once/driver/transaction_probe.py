"""A broker's transactions are tried at every start of a driver: one record is committed, one aborted, both looked for.

What Kafka sinks rest on is in no setting that could be read: a server that only takes the requests, or a proxy before
it, answers them all and may show readers of committed records what was aborted. Progress marks are not touched for it:
the topic is the pipeline's own and has nothing else, and so is the transactional id. Whoever is killed in the middle
leaves a transaction open that the next start ends by taking the id; of two starts at once the later one fences the
earlier, which tries again.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from effectively_once.errors import SinkError, UnreachableError
from effectively_once.kafka_client import client_config, refusal
from effectively_once.sinks.kafka import CLIENT
from effectively_once.sinks.kafka_shard import MISSING, TRANSACTION_TIMEOUT_S, consumer_of, unreachable

TRIES: Final = 5
"""Other starts may come between; each of them ends within a fraction of a second."""
PAUSE_S: Final = 0.2
"""At most, before another try: of two that wait differently long one is done before the other comes."""
DAY_MS: Final = "86400000"
CONFIG: Final = (("message.timestamp.type", "LogAppendTime"), ("retention.ms", DAY_MS), ("segment.ms", DAY_MS))
"""Of the topic: two records a start, of which none is read again. By the broker's clock, whatever ours says."""
FENCED: Final = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED, KafkaError._FATAL)
LACKING: Final = (
    KafkaError.UNSUPPORTED_VERSION,
    KafkaError._UNSUPPORTED_FEATURE,
    KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
)
ANOTHER_BROKER = "Use a broker with Kafka's transactions, or reach it past the proxy; nothing was changed."


class _FencedError(Exception):
    """Another start took the transactional id."""


@dataclass(frozen=True, slots=True)
class _Sent:
    """Two records: what was committed and where, what was aborted and where."""

    committed: bytes
    first: int
    aborted: bytes
    last: int


def name_topic(pipeline: str) -> str:
    """Name the topic, and the transactional id: among the pipeline's rights, and a sink's name has no dash."""
    return f"{pipeline}.start-probe"


@dataclass(frozen=True, slots=True)
class TransactionProbe:
    """One probe of a broker.

    Attributes:
        bootstrap: its address.
        pipeline: whose sinks go there.
        copies: of the topic, where this start has to make it.
        transaction_timeout_s: as sinks ask for it.
        patience_s: how long the broker may be silent.

    """

    bootstrap: str
    pipeline: str
    copies: int = 1
    transaction_timeout_s: int = TRANSACTION_TIMEOUT_S
    patience_s: float = 15.0

    def run(self) -> None:
        """Commit one record and abort one, and read as readers of committed records do.

        Raises:
            SinkError: the broker has no transactions, or shows anything else than the committed record.
            AccessError: it does not let the pipeline.
            UnreachableError: it does not answer, or does not get to the end of the two.

        """
        self._make_topic()
        for _ in range(TRIES):
            try:
                sent = self._send()
            except _FencedError:
                time.sleep(random.uniform(0, PAUSE_S))
            else:
                self._compare(sent, self._read(sent))
                return
        raise UnreachableError(
            f"whether transactions are kept could not be tried: another start took the transactional id {self._name} "
            f"in each of {TRIES} tries",
            self.bootstrap,
            "See that one driver of this pipeline is started at a time; nothing was changed, start it again.",
        )

    @property
    def _name(self) -> str:
        return name_topic(self.pipeline)

    def _make_topic(self) -> None:
        """Make the topic where `create` did not: of a pipeline that an older version created, or made by hand."""
        admin = AdminClient(client_config(self.bootstrap))
        try:
            asked = admin.describe_topics(TopicCollection([self._name]), request_timeout=self.patience_s)
            asked[self._name].result()
        except KafkaException as error:
            if error.args[0].code() not in MISSING:
                raise self._name_error(error.args[0], admin) from error
            self._make(admin)

    def _make(self, admin: AdminClient) -> None:
        wanted = NewTopic(self._name, 1, self.copies, config=dict(CONFIG))
        try:
            admin.create_topics([wanted], request_timeout=self.patience_s)[self._name].result()
        except KafkaException as error:
            cause = error.args[0]
            if cause.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return
            missing = f"topic {self._name}, which is missing: `effectively-once create` makes it"
            raise refusal(cause, self.bootstrap, missing, admin) or unreachable(
                cause, self.bootstrap, self._name
            ) from error

    def _send(self) -> _Sent:
        nonce = uuid.uuid4().hex
        committed, aborted = f"{nonce} committed".encode(), f"{nonce} aborted".encode()
        try:
            producer = self._open()
            first = self._write(producer, committed, producer.commit_transaction)
            last = self._write(producer, aborted, producer.abort_transaction)
        except SystemError as error:
            # As the sinks have it: a fatal error out of a poll, and a delivery report of the same poll.
            raise _FencedError from error
        except KafkaException as error:
            cause = error.args[0]
            if cause.code() in FENCED or cause.fatal():
                raise _FencedError from error
            raise self._name_error(cause) from error
        return _Sent(committed, first, aborted, last)

    def _open(self) -> Producer:
        producer = Producer(
            {
                **client_config(self.bootstrap),
                **CLIENT,
                "delivery.report.only.error": False,
                "linger.ms": 0,
                "transactional.id": self._name,
                "transaction.timeout.ms": self.transaction_timeout_s * 1000,
            }
        )
        # Twice, as the sinks do: half a second would be lost otherwise, by chance.
        producer.list_topics(self._name, timeout=self.patience_s)
        producer.list_topics(self._name, timeout=self.patience_s)
        producer.init_transactions(self.patience_s)
        return producer

    def _write(self, producer: Producer, body: bytes, end: Callable[[float], None]) -> int:
        """Write a record in a transaction of its own; return its offset once the transaction is ended."""
        told: list[tuple[KafkaError | None, Message]] = []
        producer.begin_transaction()
        producer.produce(
            self._name, body, b"probe", partition=0, on_delivery=lambda error, message: told.append((error, message))
        )
        producer.flush(self.patience_s)
        if not told:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "a record was not acknowledged"))
        ((error, message),) = told
        if error is not None:
            raise KafkaException(error)
        end(self.patience_s)
        offset: int | None = message.offset()
        assert offset is not None  # noqa: S101 - it was acknowledged
        return offset

    def _read(self, sent: _Sent) -> list[bytes]:
        """Read what committed readers see from the one record to beyond the other."""
        seen: list[bytes] = []
        until = time.monotonic() + self.patience_s
        with closing(consumer_of(self.bootstrap, "read_committed")) as consumer:
            consumer.assign([TopicPartition(self._name, 0, sent.first)])
            while (message := consumer.poll(max(0.0, until - time.monotonic()))) is not None:
                error = message.error()
                if error is None:
                    seen.append(message.value() or b"")
                elif error.code() == KafkaError._PARTITION_EOF:
                    # Markers are written after the broker has answered: until then the end lies before the record.
                    if (message.offset() or 0) > sent.last:
                        return seen
                elif error.code() not in MISSING and not error.retriable():
                    # A topic that was just made is not yet known to every broker.
                    raise self._name_error(error)
        raise UnreachableError(
            f"committed readers did not get past offset {sent.last} of topic {self._name} within "
            f"{self.patience_s:g} s, where a transaction was aborted",
            self.bootstrap,
            "Check the broker, and whether a transaction is open in that topic (`kafka-transactions.sh "
            "describe-producers`). The topic holds nothing else: it may be deleted. Then start the pipeline again.",
        )

    def _compare(self, sent: _Sent, seen: list[bytes]) -> None:
        where = f"{self.bootstrap}, topic {self._name}"
        if sent.aborted in seen:
            raise SinkError(
                "the Kafka broker shows readers of committed records one that was aborted", where, ANOTHER_BROKER
            )
        if (shown := seen.count(sent.committed)) != 1:
            raise SinkError(
                f"the Kafka broker shows {shown} times a record that was committed once", where, ANOTHER_BROKER
            )

    def _name_error(self, error: KafkaError, client: AdminClient | None = None) -> Exception:
        if error.code() in LACKING:
            return SinkError(f"the Kafka broker has no transactions: {error.str()}", self.bootstrap, ANOTHER_BROKER)
        if error.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
            return SinkError(
                f"the Kafka broker lets no transaction stay open for {self.transaction_timeout_s} s",
                self.bootstrap,
                "Lower transaction_timeout_s, or raise the broker's transaction.max.timeout.ms.",
            )
        if (refused := refusal(error, self.bootstrap, f"topic and transactional id {self._name}", client)) is not None:
            return refused
        if error.code() in (KafkaError._TIMED_OUT, KafkaError.COORDINATOR_NOT_AVAILABLE):
            return UnreachableError(
                f"the Kafka broker does not answer a transaction: {error.str()}",
                self.bootstrap,
                "Check that it runs, and that transaction.state.log.replication.factor and min.isr are not above the "
                "number of brokers; nothing was lost, start the pipeline again.",
            )
        return unreachable(error, self.bootstrap, self._name)
