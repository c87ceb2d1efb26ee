"""At least once by acknowledger: a source with a buffer, two components on Spark, and nothing of Spark's own repeats.

The driver reads the topic into the buffer, gives out a round of events, and runs the components over it as one job of
Spark. A task that is repeated does nothing, so what an executor took with it is acknowledged by nobody: it times out,
and the source replays it. The offsets below which everything is acknowledged are committed to the broker; a driver that
starts again reads on from there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from functools import partial, reduce

import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, TopicPartition
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from effectively_once.errors import SourceError, UnreachableError
from effectively_once.kafka_client import client_config
from effectively_once.progress import announce
from effectively_once.sources.kafka import KafkaSource
from effectively_once_jobs.system_usage.acknowledger import Acknowledger, Report
from effectively_once_jobs.system_usage.components import (
    SPARK_TUPLES,
    analyze,
    as_batches,
    count_rows,
    numbers,
)
from effectively_once_jobs.system_usage.in_batches import repeated
from effectively_once_jobs.system_usage.look_up import announce_portion
from effectively_once_jobs.system_usage.settings import UsageSettings
from effectively_once_jobs.system_usage.source_buffer import Place, SourceBuffer
from effectively_once_jobs.system_usage.store import ResultStore, shared_store
from effectively_once_jobs.system_usage.transform import transactions

POLL_S = 0.1
ANSWER_S = 20.0
ROUND = pa.schema(
    [
        ("root", pa.int64()),
        ("tuple", pa.int64()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("value", pa.binary()),
    ]
)


class Topic:
    """The topic as a source that reads it once, from what was committed.

    Raises:
        SourceError: there is no such topic.
        UnreachableError: the broker does not answer.

    """

    def __init__(self, settings: UsageSettings) -> None:
        self._name, self._bootstrap = settings.topic, settings.kafka_bootstrap
        self._consumer = Consumer(
            {
                **client_config(settings.kafka_bootstrap),
                "group.id": settings.pipeline,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                # Else, where what was committed is gone, it would go on at the end, as if there were nothing before.
                "auto.offset.reset": "error",
            }
        )
        first = KafkaSource(settings).first_offsets()[self._name]
        asked = [TopicPartition(self._name, int(partition)) for partition in first]
        try:
            known = self._consumer.committed(asked, timeout=ANSWER_S)
        except KafkaException as error:
            raise self._silent(error) from error
        # An offset below 0 says that nothing was committed.
        self._committed = {one.partition: max(one.offset, first[str(one.partition)]) for one in known}
        self._consumer.assign([TopicPartition(self._name, *at) for at in self._committed.items()])
        announce("reading", reached=self.reached)

    @property
    def reached(self) -> int:
        """Sum of the offsets that are committed."""
        return sum(self._committed.values())

    def read(self, most: int, wait_s: float) -> Iterator[tuple[Place, bytes | None]]:
        """Yield what has arrived, at most so much."""
        for message in self._consumer.consume(most, wait_s):
            error = message.error()
            if error is None:
                yield (message.partition(), message.offset()), message.value()
            elif not error.retriable():
                raise SourceError(f"the topic cannot be read: {error.str()}", f"topic {self._name}", "Look at it.")

    def commit(self, offsets: dict[int, int]) -> None:
        """Commit where a successor is to begin, where that has changed."""
        moved = {partition: end for partition, end in offsets.items() if self._committed.get(partition) != end}
        if not moved:
            return
        try:
            self._consumer.commit(
                offsets=[TopicPartition(self._name, partition, end) for partition, end in moved.items()],
                asynchronous=False,
            )
        except KafkaException as error:
            raise self._silent(error) from error
        self._committed |= moved

    def _silent(self, error: KafkaException) -> UnreachableError:
        return UnreachableError(
            f"the Kafka broker does not answer: {error.args[0].str()}",
            self._bootstrap,
            "Check that it runs; nothing that was not acknowledged is committed, start the job again.",
        )


def run(settings: UsageSettings, spark: SparkSession, stop: threading.Event) -> None:
    """Run rounds until `stop` is set."""
    topic = Topic(settings)
    buffer, acknowledger = SourceBuffer[bytes | None](), Acknowledger[Place](settings.time_out_s)
    number = 0
    while not stop.is_set():
        # What waits for its time-out is in the buffer, and makes room for nothing.
        room = settings.epoch_rows_max - len(buffer)
        if room > 0:
            for place, value in topic.read(room, POLL_S):
                buffer.take_in(place, value)
        else:
            stop.wait(POLL_S)
        events = buffer.give_out(settings.epoch_rows_max)
        if events:
            announce("epoch", epoch=number, state="declared")
        now_s = time.monotonic()
        rows = []
        for root, (place, value) in zip(numbers(len(events)), events, strict=True):
            acknowledger.track(root, place, now_s)
            rows.append((root, place, value))
        for report in _reports(settings, spark, rows) if rows else ():
            if (ended := acknowledger.take_report(report)) is not None:
                place, successful = ended
                (buffer.acknowledge if successful else buffer.keep_failed)(place)
        for place in acknowledger.time_out(time.monotonic()):
            buffer.keep_failed(place)
        topic.commit(dict(buffer.offsets_to_commit()))
        if events:
            announce(
                "epoch",
                epoch=number,
                state="published",
                reached=topic.reached,
                pending=len(buffer),
                replayed=buffer.replayed,
            )
            number += 1


def _reports(
    settings: UsageSettings, spark: SparkSession, rows: list[tuple[int, Place, bytes | None]]
) -> Iterator[Report]:
    """Run the components over a round. A job that fails as a whole has reported nothing: all of it times out."""
    try:
        found = plan(settings, transactions(_give_out(settings, spark, rows))).toArrow()
    except PySparkException as error:
        announce("round_failed", says=str(error).splitlines()[0][:300])
        return
    for root, xor, failed in zip(*(found[name].to_pylist() for name in found.column_names), strict=True):
        yield Report(root, xor, failed)


def _give_out(settings: UsageSettings, spark: SparkSession, rows: list[tuple[int, Place, bytes | None]]) -> DataFrame:
    """Return a round as a frame: a partition of the topic is one task's, in the order of its offsets.

    Without a shuffle: for a lost one Spark would repeat tasks as if for the first time.
    """
    frames = []
    for shard in range(settings.shards):
        own = sorted((row for row in rows if row[1][0] % settings.shards == shard), key=lambda row: row[1])
        roots, places = [root for root, _, _ in own], [place for _, place, _ in own]
        columns = [
            roots,
            roots,
            [settings.topic] * len(own),
            [partition for partition, _ in places],
            [offset for _, offset in places],
            [value for _, _, value in own],
        ]
        if own:
            frames.append(spark.createDataFrame(pa.table(columns, schema=ROUND)).coalesce(1))
    return reduce(DataFrame.unionAll, frames)


def plan(settings: UsageSettings, rows: DataFrame) -> DataFrame:
    """Both components over transformed rows."""
    found = rows.mapInArrow(partial(_analyzer, settings), SPARK_TUPLES)
    return found.mapInArrow(partial(_counter, settings), SPARK_TUPLES).select("root", "tuple", "report")


def _analyzer(settings: UsageSettings, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    # Not even read: where a task is repeated, its events are the acknowledger's.
    if not repeated(TaskContext.get()):
        for batch in batches:
            yield from as_batches(analyze(pa.Table.from_batches([batch]), _store(settings)))


def _counter(settings: UsageSettings, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from as_batches(
            count_rows(pa.Table.from_batches([batch]), _store(settings), settings.window_ms, announce_portion)
        )


def _store(settings: UsageSettings) -> ResultStore:
    return shared_store(settings.database, settings.pipeline)
