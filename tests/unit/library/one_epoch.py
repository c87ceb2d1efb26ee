"""The two steps of an epoch in one process: what shards decide and publish of a table of rows."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from effectively_once import Count, Max, Min, Pipeline, Stateful, Sum, ToFiles, ToKafka, ToTable, Windowed
from effectively_once.epoch import between, epoch, whole_input
from effectively_once.epoch.epoch_task import EpochTask
from effectively_once.epoch.rows import empty
from effectively_once.epoch.shard_step import ShardStep
from effectively_once.ledger.rows import Rows
from effectively_once.sinks.publish import Published
from effectively_once.state.deltas import Named
from tests.settings import pipeline_settings
from tests.unit.ledger.memory_store import MemoryStore
from tests.unit.ledger.samples import declaration

NUMBERS = itertools.count()
COLUMNS = pa.schema([("user", pa.string()), ("amount", pa.int64())])
VALUES: dict[str, Any] = {"n": Count(), "sum": Sum("amount"), "least": Min("amount"), "most": Max("amount")}
PIPELINE = Pipeline(
    lambda frame: frame,
    COLUMNS,
    rows=(ToKafka("accepted", key="user"), ToTable("orders")),
    window_ms=100,
    lateness_ms=0,
    windows=(
        Windowed("user", VALUES, ToTable("per_user"), totals=ToFiles("totals")),
        Windowed("id", {"n": Count()}, ToKafka("per_id")),
    ),
)
TOTALS = PIPELINE.windows[0]


@dataclass
class Place:
    """A store, and what the sinks of one epoch were given."""

    store: MemoryStore = field(default_factory=MemoryStore)
    published: dict[tuple[str, int], Any] = field(default_factory=dict)
    name: str = field(default_factory=lambda: f"steps_{next(NUMBERS)}")

    def task(
        self, pipeline: Pipeline, number: int = 0, named: dict[str, dict[int, list[Named]]] | None = None, **pinned: Any
    ) -> EpochTask:
        made = pipeline_settings(pipeline=self.name, database="postgresql://h:1/d", **pipeline.defaults)
        wanted = {"watermark_ms": None, "previous_watermark_ms": None, **pinned}
        return EpochTask(pipeline, made, declaration(number).model_copy(update=wanted), 1, "owner", named or {})

    def step(self, task: EpochTask, name: str = "dedup", shard: int = 0, attempt: int = 0) -> ShardStep:
        def opened(sink: str, shard: int, _: Any) -> Any:
            return Sink(self, sink, shard)

        return ShardStep(task, name, shard, attempt, store=self.store, opened=opened)

    def dedup(
        self, rows: pa.Table, pipeline: Pipeline = PIPELINE, *, batches: int | None = None, **pinned: Any
    ) -> tuple[pa.Table, dict[str, Any]]:
        """Run the first step; return what it hands on, and what it told."""
        step = self.step(self.task(pipeline, **pinned))
        given = rows.to_batches(max_chunksize=batches) if rows.num_rows else []
        found = pa.Table.from_batches(epoch.deduplicate(step, given), between.columns(pipeline))
        told = found.filter(pa.compute.equal(found["kind"], "shard")).to_pylist()
        assert [(row["shard"], row["kind"]) for row in told] == [(0, "shard")]
        return found, json.loads(told[0]["note"])

    def aggregate(self, carried: pa.Table, pipeline: Pipeline = PIPELINE, **pinned: Any) -> pa.Table:
        step = self.step(self.task(pipeline, **pinned), "windows")
        return pa.Table.from_batches(epoch.merge_partials(step, carried.to_batches()), between.columns(pipeline))


@dataclass
class Sink:
    """Keeps what one shard publishes."""

    place: Place
    name: str
    shard: int

    def publish(self, epoch: int, generation: int, rows: Any) -> tuple[Rows, Published]:
        self.place.published[self.name, self.shard] = rows
        return Rows(rows=rows.num_rows if isinstance(rows, pa.Table) else len(rows)), Published.NOW


def table(rows: Sequence[dict[str, Any]], pipeline: Pipeline = PIPELINE) -> pa.Table:
    """Make rows of shard 0 as `rows.judge` and `in_shards` give them; what is not said has a default."""
    defaults = {"topic": "t", "partition": 0, "event_time_ms": 5, "user": "ann", "amount": 1, "shard": 0}
    whole = [
        {**defaults, "offset": number, "id": f"i{number}", "reason": None, "value": None, **row}
        for number, row in enumerate(rows)
    ]
    return pa.Table.from_pylist(whole, empty(pipeline).schema)


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.sampled_from(["a", "b", "c", "d"]),
            "user": st.sampled_from(["ann", "bob"]),
            "amount": st.integers(-9, 9),
            "event_time_ms": st.integers(0, 300),
            "partition": st.integers(0, 2),
            "reason": st.sampled_from([None, None, None, "late", "bad"]),
        }
    ),
    max_size=12,
)
STATEFUL = Pipeline(
    lambda frame: frame,
    COLUMNS,
    rows=(ToKafka("accepted"),),
    window_ms=100,
    lateness_ms=0,
    stateful=Stateful(lambda frame: frame, COLUMNS, by="user", to=ToKafka("per_user", key="user")),
)


def input_of(step: str, pipeline: Pipeline) -> pa.Table:
    """Rows of shard 0 on their way to a step."""
    if step == "dedup":
        return table([{}], pipeline)
    if pipeline.stateful is not None:
        return pa.Table.from_pylist([{"user": "ann", "amount": 1}], COLUMNS)
    return Place().dedup(table([{}]))[0]


def closed(rows: pa.Table, digested: Sequence[str], tasks: int = 1) -> list[pa.RecordBatch]:
    """Those rows with the closing row of task 0, which had them all."""
    digest = f"{whole_input.digest_of(rows, digested):x}"
    told = json.dumps({"task": 0, "tasks": tasks, "rows": rows.num_rows, "digest": digest})
    schema = rows.schema.append(pa.field(whole_input.CLOSING, pa.string()))
    both = [rows, pa.Table.from_pylist([{whole_input.CLOSING: told}])]
    together: list[pa.RecordBatch] = pa.concat_tables(both, promote_options="default").select(schema.names).to_batches()
    return together
