"""At most once, and at least once by checkpoint: Spark's own batches, whose effects are outside of them.

Spark keeps the end offsets of batch n on the object store before it runs it, and that it is done afterwards; after a
restart it repeats a batch that is not done, and within a batch a task that failed. At least once by checkpoint leaves
that as it is; beside it both totals are kept as the state of an operator, which is saved with each batch. At most once
turns all of it off: the batch is noted as begun, once, *before* it is processed, a batch that is so noted is skipped,
and a task that is repeated does nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from effectively_once.driver.checkpoints import Checkpoint
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Delete, Put, Written
from effectively_once.progress import announce
from effectively_once.sources.kafka import KafkaSource
from effectively_once.store.object_store import S3ObjectStore
from effectively_once_jobs.system_usage.look_up import announce_portion
from effectively_once_jobs.system_usage.settings import AT_MOST_ONCE, CHECKPOINTED, UsageSettings
from effectively_once_jobs.system_usage.snapshots import Snapshots, Totals
from effectively_once_jobs.system_usage.store import LookUpError, shared_store
from effectively_once_jobs.system_usage.transform import transactions
from effectively_once_jobs.system_usage.usage import portions, with_answers

DONE = "transactions long, frauds long"
LINEAGE = "batches"
KEPT = 100
"""Notes of begun batches that are kept; Spark repeats the last one at most."""


def start(settings: UsageSettings, spark: SparkSession) -> StreamingQuery:
    """Start the query; its checkpoint is on the object store."""
    source = KafkaSource(settings)
    store = S3ObjectStore(settings.bucket)
    totals, snapshots = Totals(), Snapshots(store, settings.pipeline)
    checkpoint = Checkpoint(store, Layout(settings.pipeline), LINEAGE)
    committed = checkpoint.batches("commits") if settings.semantics == CHECKPOINTED else []
    restored = snapshots.restore(totals, max(committed, default=-1))
    stream = source.stream(spark, source.first_offsets())
    rows = transactions(stream).where("reason IS NULL")

    def publish(batch: DataFrame, number: int) -> None:
        announce("epoch", epoch=number, state="declared")
        if settings.semantics != AT_MOST_ONCE or note_begun(store, settings.pipeline, number):
            done = process(settings, batch)
            # A snapshot that a driver left just before it died holds this batch already.
            if settings.semantics == CHECKPOINTED and number > restored:
                totals.add(*done)
                snapshots.save(number, totals)
        ends = (checkpoint.offsets(number) or {}).get(settings.topic, {})
        announce("epoch", epoch=number, state="published", reached=sum(ends.values()))

    query = rows.writeStream.foreachBatch(publish).option("checkpointLocation", checkpoint.folder())
    return query.queryName(settings.pipeline).start()


def process(settings: UsageSettings, batch: DataFrame) -> tuple[int, int]:
    """Process a batch; transactions and frauds, of each task those of the attempt that succeeded.

    What other attempts did is outside of Spark. By Arrow: that ends with a word on how many parts there were. Rows that
    are collected end wherever the JVM's socket does, and a snapshot of some tasks would stay.
    """
    done = batch.mapInArrow(partial(count_rows, settings), DONE).toArrow()
    transactions, frauds = (sum(done[name].to_pylist()) for name in ("transactions", "frauds"))
    return transactions, frauds


def note_begun(store: S3ObjectStore, pipeline: str, number: int) -> bool:
    """Note that a batch is begun; False where a driver has noted it before.

    An answer that got lost counts as noted by another: at most once rather loses a batch than counts it twice.
    """
    written = store.answer(Put(f"{pipeline}/begun/{number:09}", b"", None))
    if number >= KEPT:
        store.answer(Delete(f"{pipeline}/begun/{number - KEPT:09}"))
    return isinstance(written, Written)


def count_rows(settings: UsageSettings, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Look up and count the rows of one partition of a batch, portion by portion.

    Raises:
        LookUpError: with a checkpoint; what was counted before it stays counted.

    """
    once = settings.semantics == AT_MOST_ONCE
    if once and repeated(TaskContext.get()):
        return
    store = shared_store(settings.database, settings.pipeline)
    transactions = frauds = 0
    for batch in batches:
        for portion in portions(pa.Table.from_batches([batch])):
            try:
                answered = with_answers(portion, store.frauds(portion["id"].to_pylist()))
                store.count(answered, settings.window_ms)
            except LookUpError:
                if not once:
                    raise
            else:
                transactions += answered.num_rows
                frauds += sum(answered["fraud"].to_pylist())
            announce_portion(portion.num_rows)
    yield pa.RecordBatch.from_pydict({"transactions": [transactions], "frauds": [frauds]})


def repeated(task: TaskContext) -> bool:
    """Whether an attempt at this task's rows may have been made before.

    Attempts are numbered anew when a stage is repeated, which is for lost shuffles alone: what asks has none.
    """
    return bool(task.attemptNumber() > 0)
