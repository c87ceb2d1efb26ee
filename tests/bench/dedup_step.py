"""One batch of ids in one shard, as the dedup step of an epoch: state before it, decision, durable delta."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from effectively_once.ledger.layout import Layout
from effectively_once.state import catalog, deltas
from effectively_once.state.lateness import Windows
from effectively_once.store import object_store
from effectively_once.store.object_store import BucketAddress
from tests.bench.dedup_data import SPAN_MS, WINDOW_MS

SHARDS = 2
WINDOWS = Windows(WINDOW_MS, SPAN_MS - WINDOW_MS)
NOTE = "shard int, accepted long, latest long, delta string"
_SCHEMA = pa.schema([("shard", pa.int32()), ("accepted", pa.int64()), ("latest", pa.int64()), ("delta", pa.string())])


@dataclass(frozen=True)
class Task:
    """What the tasks of one batch are given.

    Attributes:
        name: of the run; its deltas lie below it.
        address: where.
        epoch: number of the batch.
        watermark_ms: latest event time of the batches before.
        named: deltas of the batches before, by shard.

    """

    name: str
    address: BucketAddress
    epoch: int
    watermark_ms: int | None
    named: dict[int, list[deltas.Named]]


def decide(task: Task, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decide the rows of one shard, write the delta, and tell in one row how many ids were new."""
    shard = TaskContext.get().partitionId()
    rows = pa.Table.from_batches(batches)
    log = deltas.ShardDeltas(
        object_store.shared_store(task.address), Layout(task.name), catalog.KIND, shard, catalog.canonical
    )
    known = _fold_cache().state(log, lambda: catalog.Catalog(WINDOWS), task.named[shard], task.epoch)
    known.expire(task.watermark_ms)
    accepted = rows.filter(pa.array(known.decide(rows["id"])))
    delta = log.write(task.epoch, accepted.cast(catalog.SCHEMA))
    note = {
        "shard": shard,
        "accepted": accepted.num_rows,
        "latest": pc.max(rows["event_time_ms"]).as_py(),
        "delta": delta.model_dump_json(),
    }
    yield from pa.Table.from_pylist([note], _SCHEMA).to_batches()


@lru_cache(maxsize=1)
def _fold_cache() -> deltas.FoldCache:
    """One per Python worker, as in a pipeline."""
    return deltas.FoldCache()
