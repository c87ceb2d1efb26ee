"""One shard of a Kafka sink: where it is, and its progress mark as a reader finds it (R8)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from effectively_once.errors import SinkError, UnreachableError
from effectively_once.kafka_client import client_config, refusal
from effectively_once.sinks.leaders import ask_again
from effectively_once.sinks.publish import Mark

TRANSACTION_TIMEOUT_S = 60
MISSING = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC)
"""Answers about a topic or partition that is not there."""
Row = tuple[bytes | None, bytes]
"""Key and value."""
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


def read_mark(address: ShardAddress, timeout_s: float = 20.0) -> Mark | None:
    """Read the last committed mark of a shard: its progress partition up to the high watermark, or an error (R8).

    An open transaction hides what was committed behind it. One of the shard's own is ended by whoever opens a producer
    before it asks; that of somebody else is waited for.

    Raises:
        UnreachableError: the end was not reached in time; no mark is not the same as none found yet.
        SinkError: the progress topic does not exist.

    """
    return _mark(address, timeout_s, "read_uncommitted")


def read_seen_mark(address: ShardAddress, timeout_s: float = 20.0) -> Mark | None:
    """Read the last mark that committed readers see by now: an open transaction may hide a later one.

    For those who disturb nobody, so that a transaction of the shard's own may be open. Raises what `read_mark` raises.
    """
    return _mark(address, timeout_s, "read_committed")


def read_written_mark(address: ShardAddress, timeout_s: float = 20.0) -> Mark | None:
    """Read the last mark that was written, committed or not. Raises what `read_mark` raises."""
    return _mark(address, timeout_s, "read_uncommitted", "read_uncommitted")


def _mark(address: ShardAddress, timeout_s: float, up_to: str, of: str = "read_committed") -> Mark | None:
    where = TopicPartition(address.progress, address.shard, OFFSET_BEGINNING)
    last: Mark | None = None
    try:
        # What a consumer may read tells it where its partition ends. One after the other: where two connected at once,
        # one of seven waited a second for it on a busy machine.
        with closing(consumer_of(address.bootstrap, up_to)) as asking:
            low, high = ends(asking, where, timeout_s)
        with closing(consumer_of(address.bootstrap, of)) as consumer:
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


def consumer_of(bootstrap: str, isolation: str) -> Consumer:
    """Return a consumer that reads what it is assigned: `read_committed` stops before an open transaction."""
    return Consumer(
        {
            **client_config(bootstrap),
            "group.id": "effectively-once.shards",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 10,
        }
    )


def ends(consumer: Consumer, where: TopicPartition, timeout_s: float) -> tuple[int, int]:
    """First offset of a partition, and where what this consumer may read ends; a changing leader is waited for."""
    asked: tuple[int, int] = ask_again(timeout_s)(consumer.get_watermark_offsets, where, timeout=timeout_s)
    return asked


def unreachable(error: KafkaError, bootstrap: str, topic: str) -> Exception:
    """Return the named error for what the client says."""
    if error.code() in MISSING:
        return SinkError(
            f"topic {topic} does not exist, or lacks a partition",
            bootstrap,
            "Run `effectively-once create` or restore the topic.",
        )
    if (refused := refusal(error, bootstrap, f"topic {topic}")) is not None:
        return refused
    if error.code() == KafkaError.LEADER_NOT_AVAILABLE:
        return UnreachableError(
            f"a partition of topic {topic} has no leader",
            bootstrap,
            "Start the broker that has it. Where it runs its disk is full or failed (`kafka-log-dirs.sh --describe`): "
            "make room, then start that broker again; nothing was lost, start the pipeline again.",
        )
    return UnreachableError(
        f"the Kafka broker does not answer: {error.str()}",
        bootstrap,
        "Check that it runs and that the address is right; nothing was lost, start the pipeline again.",
    )


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
