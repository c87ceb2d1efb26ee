"""A reader that runs during the faults: what it saw, and when, for oracle 3. It reads committed records only.

Rows are kept as checksums, of key and headers too: what was seen has to be there, unchanged, for the reader that comes
at the end, and that one writes the rows themselves down.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from tests.harness.adapters.chain_reader import ChainReader
from tests.harness.adapters.topics import Topics
from tests.harness.adapters.whole_message import whole
from tests.harness.run_directory import LinesWriter, RunDirectory
from tests.harness.sends import crc_of_row

POLL_S, BATCH = 0.25, 2_000
MANIFESTS_S = 1.0
FINISH_S = 30.0
WAIT_MS = 250
"""Of a fetch that finds nothing. With 5 ms a broker that had little else to do spent most of its time on such."""
Where = tuple[str, int]


class ConcurrentReader(threading.Thread):
    """Reads every sink of a pipeline from the first moment to the last.

    Args:
        run: gets `observed/<sink>.concurrent.jsonl`.
        topics: the broker.
        chain: its own reader of the object store.
        kafka_sinks: sink -> topic; the topics exist when the reader is started.
        partitions: of each of them; those that a topic is given later are read too.
        object_sink: the sink that publishes by manifests.
    """

    def __init__(
        self,
        run: RunDirectory,
        topics: Topics,
        chain: ChainReader,
        kafka_sinks: Mapping[str, str],
        *,
        partitions: int,
        object_sink: str,
    ) -> None:
        super().__init__(name="concurrent reader", daemon=True)
        self._run, self._topics, self._chain = run, topics, chain
        self._sinks = {topic: sink for sink, topic in kafka_sinks.items()}
        self._object_sink = object_sink
        self._read_of = {(topic, number) for topic in self._sinks for number in range(partitions)}
        self._next_epoch = 0
        self._looked_at = 0.0
        self._ended_at: dict[Where, int] = {}
        self._complete = False
        self._finishing, self._stopped = threading.Event(), threading.Event()
        self.trouble = ""
        """What went wrong last, for messages: a server that does not answer is asked again."""

    def run(self) -> None:
        """Read until `finish` finds everything read, or `stop`: the files are then left without their end line."""
        try:
            with contextlib.ExitStack() as files:
                names = [*self._sinks.values(), self._object_sink]
                lines = {name: files.enter_context(self._run.concurrent_writer(name)) for name in names}
                for line in lines.values():
                    line.write({"t": _now_ms(), "reader": "started"})
                self._read(lines)
                for line in lines.values():
                    line.write({"t": _now_ms(), "reader": "stopped"})
            self._complete = True
        except BaseException as error:
            self.trouble = f"{type(error).__name__}: {error}"

    def finish(self) -> None:
        """Let it read what is published, then end it. A reader that stalls leaves incomplete files."""
        self._finishing.set()
        self.join(FINISH_S)
        self.stop()

    @property
    def complete(self) -> bool:
        """Whether it has ended with everything read."""
        return self._complete

    def stop(self) -> None:
        """End it where it is; safe to repeat."""
        self._stopped.set()
        if self.is_alive():
            self.join(FINISH_S)

    def _read(self, lines: Mapping[str, LinesWriter]) -> None:
        consumer = self._topics.consumer("read_committed", eof=True, wait_ms=WAIT_MS)
        try:
            consumer.assign(_beginnings(self._read_of))
            while not self._stopped.is_set():
                finishing = self._finishing.is_set()
                self._take(consumer.consume(BATCH, POLL_S), lines)
                looked = False
                if finishing or time.monotonic() - self._looked_at >= MANIFESTS_S:
                    self._widen(consumer)
                    looked = self._manifests(lines[self._object_sink])
                if finishing and looked and self._all_read():
                    return
            raise InterruptedError(
                "the reader was stopped before it had read everything" + f" ({self.trouble})" * bool(self.trouble)
            )
        finally:
            consumer.close()

    def _take(self, messages: list[Any], lines: Mapping[str, LinesWriter]) -> None:
        now = _now_ms()
        seen: dict[Where, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for message in messages:
            at, error = (message.topic(), message.partition()), message.error()
            if error is None:
                offsets, crcs = seen[at]
                offsets.append(message.offset())
                crcs.append(crc_of_row(whole(message)))
            elif error.code() == KafkaError._PARTITION_EOF:
                self._ended_at[at] = message.offset()
            else:
                self.trouble = f"topic {at[0]}: {error.str()}"
        for (topic, partition), (offsets, crcs) in seen.items():
            lines[self._sinks[topic]].write({"t": now, "partition": partition, "offsets": offsets, "crcs": crcs})

    def _widen(self, consumer: Consumer) -> None:
        """Read partitions too that topics have been given since."""
        try:
            new = set(self._topics.list_partitions(self._sinks, MANIFESTS_S)) - self._read_of
        except Exception as error:
            self.trouble = f"partitions of the topics: {error}"
            return
        if new:
            consumer.incremental_assign(_beginnings(new))
            self._read_of |= new

    def _manifests(self, line: LinesWriter) -> bool:
        """Read the manifests that are new; False where the store did not say that these are all."""
        self._looked_at = time.monotonic()
        while True:
            try:
                published = self._chain.read_published(self._object_sink, self._next_epoch)
            except Exception as error:
                # The store may be down for a while, as everything here: asked again, at the end too.
                self.trouble = f"manifest of epoch {self._next_epoch}: {error}"
                return False
            if published is None:
                return True
            name, rows = published
            crcs = sorted(crc_of_row({**row, "epoch": self._next_epoch}) for row in rows)
            line.write({"t": _now_ms(), "epoch": self._next_epoch, "object": name, "crcs": crcs})
            self._next_epoch += 1

    def _all_read(self) -> bool:
        try:
            ends = self._topics.partitions(list(self._sinks))
        except Exception as error:
            self.trouble = f"ends of the topics: {error}"
            return False
        return all(self._ended_at.get((p.topic, p.partition), -1) >= p.last_stable_offset for p in ends)


def _beginnings(partitions: Collection[Where]) -> list[TopicPartition]:
    return [TopicPartition(topic, number, OFFSET_BEGINNING) for topic, number in sorted(partitions)]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
