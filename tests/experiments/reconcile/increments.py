"""What a task of the second stream does. In a module of its own: workers import it by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import orjson
import pyarrow as pa
from confluent_kafka import Producer
from pyspark import TaskContext

from effectively_once import points
from effectively_once.kafka_client import client_config
from effectively_once.pipeline.settings import PipelineSettings
from effectively_once.state import windows
from effectively_once.state.lateness import Windows
from effectively_once_jobs.user_counts import pipeline

(COUNTS,) = pipeline.windows
SCHEMA = "rows long"
FLUSH_S = 60.0


def add(settings: PipelineSettings, number: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add the rows of one partition of a batch to the counts, whoever may have added them before.

    Raises:
        RuntimeError: the broker did not take all of them.

    """
    held = list(batches)
    if not held:
        return
    whole = pa.Table.from_batches(held)
    lengths = Windows(settings.window_ms, settings.lateness_ms)
    counts = windows.partial(whole, COUNTS.keys, COUNTS.accumulators(whole.schema), lengths)
    producer = Producer(client_config(settings.kafka_bootstrap))
    topic = f"{settings.pipeline}.{COUNTS.to.name}"
    for row in counts.rename_columns(COUNTS.names).to_pylist():
        producer.produce(topic, orjson.dumps(row), row[COUNTS.keys[0]].encode())
    if producer.flush(FLUSH_S):
        raise RuntimeError(f"topic {topic} did not take all rows within {FLUSH_S:.0f} s")
    task = TaskContext.get()
    points.reach("committed", epoch=number, shard=task.partitionId() if task else 0, sink=COUNTS.to.name)
    yield from pa.table({"rows": pa.array([whole.num_rows], pa.int64())}).to_batches()
