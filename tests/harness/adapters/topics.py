"""Kafka topics of a run: made, measured, and read from the first offset to the last."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from effectively_once.driver.sink_topics import SIZE
from effectively_once.kafka_client import client_config
from effectively_once.pipeline.sinks import MESSAGE_BYTES
from effectively_once.sinks.leaders import ask_again
from tests.harness.adapters.whole_message import whole

TIMEOUT_S = 20.0
LARGE = {SIZE: str(MESSAGE_BYTES)}
"""Of a sink's topic: a start refuses one that takes less."""
Where = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Partition:
    """Where a partition ends: for readers of committed data, and as such."""

    topic: str
    partition: int
    last_stable_offset: int
    high_watermark: int


class Topics:
    """The broker of a run, as the harness needs it."""

    def __init__(self, bootstrap: str, replication: int = 1) -> None:
        self.bootstrap, self._replication = bootstrap, replication
        self._admin = AdminClient(client_config(bootstrap))

    def create(self, partitions: Mapping[str, int], compacted: Mapping[str, int] | None = None) -> None:
        """Make topics and wait until every partition has a leader."""
        wanted = [NewTopic(name, count, self._replication, config=LARGE) for name, count in partitions.items()]
        wanted += [
            NewTopic(name, count, self._replication, config={"cleanup.policy": "compact"})
            for name, count in (compacted or {}).items()
        ]
        for made in self._admin.create_topics(wanted, operation_timeout=TIMEOUT_S).values():
            made.result(TIMEOUT_S)

    def delete(self, prefixes: tuple[str, ...]) -> list[str]:
        """Delete every topic whose name begins so; which those were."""
        names = [name for name in self._admin.list_topics(timeout=TIMEOUT_S).topics if name.startswith(prefixes)]
        if names:
            for gone in self._admin.delete_topics(names, operation_timeout=TIMEOUT_S).values():
                gone.result(TIMEOUT_S)
        return names

    def list_partitions(self, names: Iterable[str], timeout_s: float = TIMEOUT_S) -> list[Where]:
        """Every partition that some topics have now, by topic and number.

        Raises:
            KafkaException: no broker answers.
            KeyError: it knows no such topic.
        """
        known = self._admin.list_topics(timeout=timeout_s).topics
        return [(name, number) for name in names for number in sorted(known[name].partitions)]

    def partitions(self, names: list[str]) -> list[Partition]:
        """Both ends of every partition of some topics; leaders that are just changing are waited for."""
        asked: list[Partition] = ask_again(TIMEOUT_S)(self._partitions, names)
        return asked

    def _partitions(self, names: list[str]) -> list[Partition]:
        # Every time: a client asks the leaders it knows, and does not notice by itself that there are others.
        where = [TopicPartition(*at) for at in self.list_partitions(names)]
        stable, high = (
            self._ends(where, level) for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        )
        return [Partition(name, number, stable[name, number], high[name, number]) for name, number in high]

    def ends(self, topic: str) -> dict[int, int]:
        """High watermark of every partition: what a reader of uncommitted data sees."""
        return {partition.partition: partition.high_watermark for partition in self.partitions([topic])}

    def appears(self, topic: str, after: Mapping[int, int], timeout_s: float, stop: threading.Event) -> bool:
        """Wait for the first record beyond some ends, committed or not; False when none came, or `stop` is set."""
        consumer = self.consumer("read_uncommitted", eof=False)
        try:
            consumer.assign([TopicPartition(topic, number, end) for number, end in after.items()])
            deadline = time.monotonic() + timeout_s
            message = None
            while message is None and time.monotonic() < deadline and not stop.is_set():
                message = consumer.poll(0.5)
            return message is not None and message.error() is None
        finally:
            consumer.close()

    def consumer(self, isolation: str, *, eof: bool, wait_ms: int = 5) -> Consumer:
        """A consumer that commits nothing; the caller assigns and closes it.

        `wait_ms` is how long the broker holds a fetch that finds nothing, and so how late an end is noticed at most;
        records end it at once.
        """
        return Consumer(
            {
                **client_config(self.bootstrap),
                "group.id": "effectively-once.observer",
                "enable.auto.commit": False,
                "isolation.level": isolation,
                "enable.partition.eof": eof,
                # Else, where records are gone, it would go on behind the last one, and find nothing missing.
                "auto.offset.reset": "error",
                "queued.max.messages.kbytes": 65_536,
                "fetch.wait.max.ms": wait_ms,
            }
        )

    def read(
        self, topic: str, stop: threading.Event, reached: dict[int, int] | None = None
    ) -> Iterator[dict[str, Any]]:
        """Every committed record of a topic up to its last stable offset now (`whole`), `partition` and `offset` added.

        Args:
            topic: its name.
            stop: ends it early.
            reached: gets the offset at which each partition was read to its end.

        Raises:
            ReadStalledError: the end was not reached in time: what was read is not all there is.
            InterruptedError: nor is it when `stop` was set.
        """
        ends = {p.partition: p.last_stable_offset for p in self.partitions([topic])}
        for (partition, offset), row in self._records(topic, ends, "read_committed", stop, reached):
            yield {**row, "partition": partition, "offset": offset}

    def read_uncommitted(self, topic: str, stop: threading.Event) -> Iterator[tuple[tuple[int, int], dict[str, Any]]]:
        """Every record of a topic up to its end now, committed or not: partition and offset, and what it is (`whole`).

        Raises:
            ReadStalledError: the end was not reached in time: what was read is not all there is.
            InterruptedError: nor is it when `stop` was set.
        """
        return self._records(topic, self.ends(topic), "read_uncommitted", stop)

    def _records(
        self,
        topic: str,
        ends: Mapping[int, int],
        isolation: str,
        stop: threading.Event,
        reached: dict[int, int] | None = None,
    ) -> Iterator[tuple[tuple[int, int], dict[str, Any]]]:
        consumer = self.consumer(isolation, eof=True)
        reached = {} if reached is None else reached
        reached.update({number: 0 for number, end in ends.items() if not end})
        open_ones = {number for number, end in ends.items() if end > 0}
        try:
            consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in sorted(open_ones)])
            while open_ones:
                if stop.is_set():
                    # An end here would be taken for that of the topic, and written down as such.
                    raise InterruptedError(f"stopped before the ends of topic {topic} were reached")
                message = consumer.poll(TIMEOUT_S)
                if message is None:
                    raise ReadStalledError(
                        f"topic {topic}: the ends of partitions {sorted(open_ones)} were not reached in {TIMEOUT_S} s"
                    )
                error = message.error()
                if error is None:
                    yield (message.partition(), message.offset()), whole(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    # A leader of some moments does not yet hand out the last records that are committed.
                    partition, offset = int(message.partition() or 0), message.offset() or 0
                    if offset >= ends[partition]:
                        reached[partition] = offset
                        open_ones.discard(partition)
                else:
                    raise ReadStalledError(f"topic {topic}: {error.str()}")
        finally:
            consumer.close()

    def _ends(self, where: list[TopicPartition], level: IsolationLevel) -> dict[Where, int]:
        asked = dict.fromkeys(where, OffsetSpec.latest())
        found = self._admin.list_offsets(asked, isolation_level=level, request_timeout=TIMEOUT_S)
        return {(at.topic, at.partition): future.result(TIMEOUT_S).offset for at, future in found.items()}


class ReadStalledError(Exception):
    """A topic could not be read to its end: evidence is incomplete."""
