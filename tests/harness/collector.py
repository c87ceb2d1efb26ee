"""Collects the evidence of a run of any pipeline: sinks read late and committed only, the chain, what is still open."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import orjson
from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from tests.harness.adapters.chain_reader import ChainReader
from tests.harness.adapters.lake import LakeTables
from tests.harness.adapters.tables import Tables
from tests.harness.adapters.topics import TIMEOUT_S, ReadStalledError, Topics
from tests.harness.checkers.declared import COORDINATE, Declaration, Sink
from tests.harness.checkers.declared_run import GIVEN
from tests.harness.run_directory import SHOWN, RunDirectory
from tests.harness.sinks import ACCEPTED_ROWS
from tests.harness.wire import spell

SOURCE = "source"
Reached = dict[str, dict[int, int]]
"""By topic and partition, the offset at which it was read to its end."""


@dataclass(frozen=True)
class Outputs:
    """What a pipeline writes to, and what has to be there for it.

    Attributes:
        declaration: what is read and judged of it.
        kafka: its topics, those among them that are not judged too.
        tables: where its tables are; None: it has none.
        transform: runs its transform over the records of a file, into another. None: what a record is, its sender
            says, and further records close the windows.
        make: makes what a settings file needs beside topics.
        lake: where its lake tables are; None: it has none.
    """

    declaration: Declaration
    kafka: Sequence[str]
    tables: Tables | None = None
    transform: Callable[[Path, Path], None] | None = None
    make: Callable[[Path], None] = lambda _: None
    lake: LakeTables | None = None


_SINKS = (
    Sink("accepted", "kafka", "rows"),
    Sink("dead_letter", "kafka", "dead_letter"),
    Sink("user_counts", "kafka", "user_counts"),
    Sink("global_counts", "files", "user_counts", totals=True),
)
_USER_COUNTS = Declaration("user_counts", attached=True, timed=True, window_ms=60_000, lateness_ms=0, sinks=_SINKS)
USER_COUNTS = Outputs(_USER_COUNTS, _USER_COUNTS.topics)


def with_rows(tables: Tables, make: Callable[[Path], None]) -> Outputs:
    """Those of `user_counts` with its accepted rows in a table too, which `make` makes."""
    declaration = replace(_USER_COUNTS, sinks=(*_SINKS, Sink(ACCEPTED_ROWS, "table", "rows")))
    return replace(USER_COUNTS, declaration=declaration, tables=tables, make=make)


class Collector:
    """Reads the outputs of one pipeline into the run directory.

    Args:
        run: the run directory.
        topics: the broker.
        chain: reads the object store.
        outputs: what the pipeline writes to.
        pipeline: its name.
        source: the topic that it reads.
    """

    def __init__(
        self, run: RunDirectory, topics: Topics, chain: ChainReader, outputs: Outputs, *, pipeline: str, source: str
    ) -> None:
        self._run, self._topics, self._chain, self._pipeline = run, topics, chain, pipeline
        self._source, self._outputs = source, outputs

    def boundary(self) -> dict[str, Any]:
        """Where every sink ends now: what the epilogue must not move. Of a table of any kind, how many rows it has."""
        return {sink.name: self._end(sink) for sink in self._outputs.declaration.sinks}

    def _end(self, sink: Sink) -> Any:
        if sink.kind == "kafka":
            return {str(p.partition): p.high_watermark for p in self._topics.partitions([self._topic(sink.name)])}
        if sink.kind == "files":
            head = self._chain.head()
            assert head is not None, "the pipeline ran"
            return head.last_pinned
        return self._tables_of(sink).count(sink.name)

    def _tables_of(self, sink: Sink) -> Tables | LakeTables:
        found = self._outputs.lake if sink.kind == "lake" else self._outputs.tables
        assert found is not None, "it has such tables"
        return found

    def collect(self, open_transactions: Callable[[], list[str]], stop: threading.Event) -> None:
        """Write everything below `observed/` but the epilogue. The driver must have stopped.

        Raises:
            ReadStalledError: a topic was not read to its end.
        """
        outputs, evidence = self._outputs, self._write_chain()
        reached: Reached = {}
        for sink in outputs.declaration.sinks:
            self._write(sink.name, self._rows(sink, evidence["head"]["last_recorded"], stop, reached))
        self._write_quiet(outputs.kafka, reached, open_transactions())
        if outputs.transform is not None:
            source = self._run.observed_path(SOURCE)
            with self._run.observed_writer(SOURCE) as lines:
                for line in self._records():
                    lines.write(line)
            outputs.transform(source, self._run.observed_path(GIVEN))

    def _rows(
        self, sink: Sink, last_recorded: int, stop: threading.Event, reached: Reached
    ) -> Iterator[dict[str, Any]]:
        if sink.kind == "kafka":
            yield from self._read(sink.name, stop, reached)
        elif sink.kind == "files":
            for epoch, name, row in self._chain.rows(sink.name, last_recorded):
                yield {**_plain(row), "epoch": epoch, "object": name}
        else:
            # Rows of a table have no place: their order means nothing.
            for row in map(_plain, self._tables_of(sink).rows(sink.name)):
                yield row if self._outputs.transform is not None else _with_source(row)

    def _records(self) -> Iterator[dict[str, Any]]:
        """Every record of the source, with all that a transform may look at."""
        ends = self._topics.ends(self._source)
        consumer = self._topics.consumer("read_committed", eof=False)
        try:
            consumer.assign([TopicPartition(self._source, number, OFFSET_BEGINNING) for number in ends])
            left = {number for number, end in ends.items() if end > 0}
            while left:
                message = consumer.poll(TIMEOUT_S)
                if message is None or message.error() is not None:
                    raise ReadStalledError(
                        f"topic {self._source}: partitions {sorted(left)} were not read to their end"
                    )
                partition, offset = message.partition(), message.offset()
                if offset >= ends[partition] - 1:
                    left.discard(partition)
                yield {
                    "topic": self._source,
                    "partition": partition,
                    "offset": offset,
                    "key": _encode(message.key()),
                    "value": _encode(message.value()),
                    "timestamp": message.timestamp()[1],
                }
        finally:
            consumer.close()

    def _write_chain(self) -> dict[str, Any]:
        """Write the chain down, and what epochs show that were finished as they are shown; return the chain."""
        evidence = self._chain.evidence()
        self._run.write_json(self._run.chain_path, evidence)
        if any(one.get("shown") for one in [*evidence["epochs"], evidence["head"].get("declared") or {}]):
            with self._run.observed_writer(SHOWN) as writer:
                for row in self._chain.shown(evidence):
                    writer.write(row)
        return evidence

    def _write(self, sink: str, rows: Iterable[dict[str, Any]]) -> None:
        with self._run.observed_writer(sink) as writer:
            for row in rows:
                writer.write({"sink": sink, **row})

    def _read(self, sink: str, stop: threading.Event, reached: Reached) -> Iterator[dict[str, Any]]:
        topic = self._topic(sink)
        return self._topics.read(topic, stop, reached.setdefault(topic, {}))

    def _write_quiet(self, sinks: Sequence[str], reached: Reached, open_transactions: list[str]) -> None:
        """Write down where sinks end after they were read, and where reading them ended."""
        names = [self._topic(sink) for sink in sinks]
        partitions = [
            asdict(one) | {"read_to": reached.get(one.topic, {}).get(one.partition)}
            for one in self._topics.partitions([*names, *(f"{name}.progress" for name in names)])
        ]
        quiet = {"at": time.time_ns() // 1_000_000, "partitions": partitions, "open_transactions": open_transactions}
        self._run.write_json(self._run.quiet_path, quiet)

    def _topic(self, sink: str) -> str:
        return f"{self._pipeline}.{sink}"


def _with_source(row: dict[str, Any]) -> dict[str, Any]:
    """A row that names its source as messages of `user_counts` do."""
    source = [row.pop(name) for name in COORDINATE]
    return {**row, "source": source}


def _encode(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row as JSON has it."""
    plain: dict[str, Any] = orjson.loads(orjson.dumps(row, default=spell))
    return plain
