"""The sinks of a pipeline as an operator's commands meet them: fenced first, and nothing but empty epochs published.

Of what a shard shows they tell where its rows were read, as far as the rows say so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from effectively_once.epoch.publishing import database_of, open_staged
from effectively_once.ledger.objects import ObjectStore
from effectively_once.operate.abandon.abandonment import Files, Shard
from effectively_once.operate.abandon.visible import ShownShard, VisibleRows
from effectively_once.pipeline.columns import COORDINATES, DEAD_LETTER
from effectively_once.pipeline.job import Job
from effectively_once.sinks import postgres
from effectively_once.sinks.kafka import ShardSink
from effectively_once.sinks.kafka_rows import read_rows
from effectively_once.sinks.kafka_shard import Row, ShardAddress, read_seen_mark
from effectively_once.sinks.postgres import TableAddress, TableSink
from effectively_once.sinks.publish import Mark, Published
from effectively_once.sinks.transaction import C, TransactionalSink


def shards(job: Job, sinks: Sequence[str] | None = None) -> Iterator[Shard]:
    """Every shard with marks of a pipeline's sinks, or of some of them, in the order in which sinks publish.

    A Kafka sink that publishes at least once has none.
    """
    yield from _shards(job, sinks)


def shown_shards(job: Job) -> Iterator[ShownShard]:
    """Every shard with marks of a pipeline's sinks, each as a command asks what it shows."""
    yield from _shards(job, None)


def _shards(job: Job, sinks: Sequence[str] | None) -> Iterator[_Messages | _Table]:
    settings, pipeline = job.settings, job.pipeline
    wanted = [*pipeline.kafka_sinks, *pipeline.tables] if sinks is None else sinks
    for sink in wanted:
        for shard in range(settings.shards):
            if sink in pipeline.tables:
                where = TableAddress(database_of(settings), settings.pipeline, sink, shard)
                yield _Table(where, pipeline.tables[sink])
            elif sink in pipeline.kafka_sinks and settings.semantics == "exactly_once":
                wait_s = settings.transaction_timeout_s
                yield _Messages(ShardAddress(settings.kafka_bootstrap, settings.pipeline, sink, shard, wait_s))


class _Fencing(TransactionalSink[C]):
    """Publishes with a producer that was opened, and a mark that was read, before."""

    def fence(self, generation: int) -> Mark | None:
        """See Shard."""
        self._kept = self._open_at_mark(generation)
        return self._kept

    def __str__(self) -> str:
        """As messages name it."""
        return self._where


class _Messages(_Fencing[Sequence[Row]], ShardSink):
    """A shard of a Kafka sink."""

    def mark(self) -> Mark | None:
        """See Shard."""
        return read_seen_mark(self.address)

    @property
    def place(self) -> tuple[str, int]:
        """See ShownShard."""
        return self.address.sink, self.address.shard

    def rows(self, mark: Mark) -> VisibleRows:
        """See ShownShard."""
        shown = read_rows(self.address, mark)
        where = f"topic {self.address.topic} partition {self.address.shard} offsets {shown.first}-{shown.last}"
        return VisibleRows(where, self._records(sources(shown.values)))

    def _records(self, rows: pa.Table | None) -> pa.Table | None:
        """Leave out what no record is: a result of windows, which any repeat finds in the state again."""
        if rows is None or self.address.sink != DEAD_LETTER:
            return rows
        return rows.filter(pc.invert(pc.starts_with(rows["topic"], f"{self.address.pipeline}.")))

    def publish_nothing(self, epoch: int, generation: int) -> Published:
        """See Shard."""
        return self.publish(epoch, generation, ())[1]


class _Table(_Fencing[pa.Table], TableSink):
    """A shard of a table."""

    def mark(self) -> Mark | None:
        """See Shard."""
        return postgres.read_mark(self.address)

    @property
    def place(self) -> tuple[str, int]:
        """See ShownShard."""
        return self.address.sink, self.address.shard

    def rows(self, mark: Mark) -> VisibleRows:
        """See ShownShard. A table has rows of all epochs, and which are of this one it does not tell."""
        return VisibleRows(f"table {'.'.join(self.address.table)}", None if mark.rows else COORDINATES.empty_table())

    def publish_nothing(self, epoch: int, generation: int) -> Published:
        """See Shard."""
        return self.publish(epoch, generation, self.shape.schema.empty_table())[1]


def files(job: Job, store: ObjectStore) -> Iterator[Files]:
    """Every sink of a pipeline on the object store."""
    for name in job.pipeline.staged_sinks:
        yield Files(name, open_staged(job, store, name))


def sources(values: Sequence[bytes]) -> pa.Table | None:
    """Where the rows of a Kafka sink were read, by what their messages say; None where one of them does not say it."""
    found: list[tuple[str, int, int]] = []
    for value in values:
        try:
            topic, partition, offset = json.loads(value)["source"]
        except (ValueError, TypeError, KeyError):
            return None
        if not (isinstance(topic, str) and isinstance(partition, int) and isinstance(offset, int)):
            return None
        found.append((topic, partition, offset))
    columns = zip(*found, strict=True) if found else ((), (), ())
    return pa.table(
        [pa.array(list(column), kind.type) for column, kind in zip(columns, COORDINATES, strict=True)],
        schema=COORDINATES,
    )
