"""Collects the evidence of a run of a declared pipeline: sinks, chain, and what its transform makes of its records."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
from confluent_kafka import OFFSET_BEGINNING, TopicPartition
from psycopg import sql
from psycopg.rows import dict_row

from effectively_once.settings import PipelineSettings
from infra.embedded.postgres import PostgresServer
from tests.harness.adapters.chain_reader import ChainReader
from tests.harness.adapters.topics import TIMEOUT_S, ReadStalledError, Topics
from tests.harness.checkers.declared import Declaration, Sink
from tests.harness.checkers.declared_run import GIVEN
from tests.harness.collector import Collector, Reached
from tests.harness.run_directory import RunDirectory

SOURCE = "source"


class OwnCollector(Collector):
    """Reads the outputs of a declared pipeline into the run directory.

    Args:
        run: the run directory.
        topics: the broker.
        chain: reads the object store.
        settings: of the pipeline.
        declaration: what is judged of it.
        kafka_sinks: all its topics, those among them that are not judged.
        database: where its tables are; None where it has none.
        transform: runs the transform over the records of a file, into another.
    """

    def __init__(
        self,
        run: RunDirectory,
        topics: Topics,
        chain: ChainReader,
        *,
        settings: PipelineSettings,
        declaration: Declaration,
        kafka_sinks: Sequence[str],
        database: PostgresServer | None,
        transform: Callable[[Path, Path], None],
    ) -> None:
        super().__init__(run, topics, chain, settings.pipeline)
        self._source, self._declaration, self._kafka_sinks = settings.topic, declaration, kafka_sinks
        self._database, self._transform = database, transform

    def boundary(self) -> dict[str, Any]:
        """Nothing: what the epilogue sends again is judged as every other record."""
        return {}

    def collect(self, open_transactions: Callable[[], list[str]], stop: threading.Event) -> None:
        """Write everything below `observed/`. The driver must have stopped.

        Raises:
            ReadStalledError: a topic was not read to its end.
        """
        evidence = self._write_chain()
        reached: Reached = {}
        for sink in self._declaration.sinks:
            self._write(sink.name, self._rows(sink, evidence["head"]["last_recorded"], stop, reached))
        self._write_quiet(self._kafka_sinks, reached, open_transactions())
        source = self._run.observed_path(SOURCE)
        with self._run.observed_writer(SOURCE) as lines:
            for line in self._records():
                lines.write(line)
        self._transform(source, self._run.observed_path(GIVEN))

    def _rows(
        self, sink: Sink, last_recorded: int, stop: threading.Event, reached: Reached
    ) -> Iterator[dict[str, Any]]:
        if sink.kind == "kafka":
            yield from self._read(sink.name, stop, reached)
        elif sink.kind == "files":
            for epoch, name, row in self._chain.rows(sink.name, last_recorded):
                yield {**_plain(row), "epoch": epoch, "object": name}
        else:
            assert self._database is not None, "it has tables"
            with self._database.connect() as connection, connection.cursor(row_factory=dict_row) as cursor:
                table = sql.Identifier(self._pipeline, sink.name)
                for row in cursor.execute(sql.SQL("SELECT * FROM {}").format(table)):
                    yield _plain(row)

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
                    "key": _encoded(message.key()),
                    "value": _encoded(message.value()),
                    "timestamp": message.timestamp()[1],
                }
        finally:
            consumer.close()


def _encoded(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row as JSON has it."""
    plain: dict[str, Any] = orjson.loads(orjson.dumps(row, default=bytes.hex))
    return plain
