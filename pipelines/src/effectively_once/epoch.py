"""An epoch as executors see it, and the two steps they run on it: dedup and publish, then count and publish.

Both steps are functions of pinned input and of state before the epoch, so any attempt of any driver does the same:

    rows by id  -> dedup -> delta `ids`    -> sinks `accepted`, `dead_letter` -> partial counts
    partial counts by user -> delta `counts` -> closed windows -> sink `user_counts` -> partial sums per window
"""

from __future__ import annotations

import base64
import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from effectively_once import catalog, deltas, object_store, points, state
from effectively_once.errors import ChainError, StaleDriverError
from effectively_once.ledger import chain
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import ObjectStore, body_of, run
from effectively_once.ledger.records import Declaration, Delta, Rows
from effectively_once.progress import announce
from effectively_once.settings import PipelineSettings
from effectively_once.sinks.kafka import Row, ShardAddress, ShardSink
from effectively_once.sinks.names import ACCEPTED, DEAD_LETTER, USER_COUNTS
from effectively_once.sinks.plain import PlainSink
from effectively_once.sinks.publish import Published
from effectively_once.windows import Windows

BETWEEN = "kind string, shard int, user string, window_start_ms long, count long, note string"
"""Columns between the steps: `partial` rows carry counts, `shard` rows carry a step's summary as JSON."""
BETWEEN_SCHEMA = pa.schema([
    ("kind", pa.string()), ("shard", pa.int32()), ("user", pa.string()), ("window_start_ms", pa.int64()),
    ("count", pa.int64()), ("note", pa.string()),
])  # fmt: skip


@dataclass(frozen=True)
class EpochTask:
    """What a task of an epoch is given. Everything is pinned by the chain; nothing is looked up by listing."""

    settings: PipelineSettings
    declaration: Declaration
    generation: int
    owner: str
    named: dict[str, dict[int, list[deltas.Named]]]

    @property
    def layout(self) -> Layout:
        """Object names."""
        return Layout(self.settings.pipeline)

    @property
    def windows(self) -> Windows:
        """The windows of the pipeline."""
        return Windows(self.settings.window_ms, self.settings.lateness_ms)

    def deltas_of(self, kind: str, shard: int) -> list[deltas.Named]:
        """Return the live deltas of a shard, oldest first."""
        return self.named.get(kind, {}).get(shard, [])


class ShardStep:
    """One attempt at one step of one shard: its sinks, its summary and its announcements."""

    def __init__(self, task: EpochTask, step: str) -> None:
        context = TaskContext.get()
        self.task, self.step = task, step
        self.shard: int = context.partitionId()
        self.attempt: int = context.attemptNumber()
        self.store: ObjectStore = object_store.shared(task.settings.bucket)
        self.sinks: dict[str, Rows] = {}
        self.deltas: dict[str, Delta] = {}
        self.repeated = self.attempt > 0
        self.ms: dict[str, int] = {}
        self._lap_s = time.perf_counter()
        if self.attempt > 0:
            self._still_ours()
        self.reach(f"{step}_begun")

    def announce(self, what: str, sink: str | None = None) -> None:
        """Tell observers how far this attempt has come."""
        announce(
            "step", epoch=self.task.declaration.epoch, shard=self.shard, sink=sink, step=what,
            pid=os.getpid(), attempt=self.attempt,
        )  # fmt: skip
        self.reach(what, sink)

    def reach(self, point: str, sink: str | None = None) -> None:
        """Come by a named point of the protocol."""
        points.reach(point, epoch=self.task.declaration.epoch, shard=self.shard, sink=sink)

    def log(self, kind: str, canonical: deltas.Canonical) -> deltas.ShardDeltas:
        """Return the deltas of one kind of this shard."""
        small = deltas.INLINE_BYTES // self.task.settings.shards
        return deltas.ShardDeltas(self.store, self.task.layout, kind, self.shard, canonical, inline_bytes=small)

    def decide(self, log: deltas.ShardDeltas, table: pa.Table) -> None:
        """Write the delta that is this shard's decision."""
        self.deltas[log.kind] = log.write(self.task.declaration.epoch, table)
        self._lap(log.kind)
        self.announce(f"{log.kind}_decided")

    def publish(self, sink: str, rows: list[Row]) -> None:
        """Publish this shard's rows of a Kafka sink."""
        settings = self.task.settings
        address = ShardAddress(settings.kafka_bootstrap, settings.pipeline, sink, self.shard)
        shard_sink: ShardSink | PlainSink
        if settings.semantics == "exactly_once":
            shard_sink = _sink(address)
            shard_sink.announce = lambda what: self.announce(what, sink)
        else:
            shard_sink = _plain(address)
        content, published = shard_sink.publish(self.task.declaration.epoch, self.task.generation, rows)
        self.sinks[sink] = content
        self.repeated |= published is Published.BEFORE
        self._lap(sink)
        self.reach("published", sink)

    def summary(self, **counts: Any) -> dict[str, Any]:
        """Return the row that tells the driver what this shard did."""
        note = {
            "sinks": {name: rows.model_dump() for name, rows in self.sinks.items()},
            "deltas": {name: rows.model_dump() for name, rows in self.deltas.items()},
            "repeated": self.repeated, "ms": self.ms, **counts,
        }  # fmt: skip
        return {"kind": "shard", "shard": self.shard, "note": json.dumps(note)}

    def _lap(self, step: str) -> None:
        """Note the milliseconds since the step before; waiting for rows counts to the first one."""
        now = time.perf_counter()
        self.ms[step], self._lap_s = round((now - self._lap_s) * 1000), now

    def _still_ours(self) -> None:
        """Look at head before a repeated attempt.

        This fences nobody (the chain does); it spares two drivers a tug-of-war over producers.
        """
        body = run(body_of(self.task.layout.head), self.store)
        if body is not None and (now := chain.decoded(body, self.task.layout.head)).owner != self.task.owner:
            raise StaleDriverError(
                f"driver {self.task.owner} was replaced by {now.owner}",
                self.task.layout.head,
                "Nothing to do here.",
            )


def dedup(task: EpochTask, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of one shard by id -> accepted and dead-letter rows published, partial counts returned.

    Columns in: shard, topic, partition, offset, id, user, event_time_ms, payload, crc, reason (null: in time), value.
    """
    step = ShardStep(task, "dedup")
    rows = _in_source_order(batches, step)
    dead = rows.filter(pc.is_valid(rows["reason"]))
    timely = rows.filter(pc.is_null(rows["reason"]))

    windows, log = task.windows, step.log(catalog.KIND, catalog.canonical)
    named = task.deltas_of(catalog.KIND, step.shard)
    known = _folder().state(log, lambda: catalog.Catalog(windows), named, task.declaration.epoch)
    known.expire(task.declaration.watermark_ms)
    accepted = timely.filter(pa.array(known.decide(timely["id"])))
    step.decide(log, accepted.select(catalog.SCHEMA.names).cast(catalog.SCHEMA))

    step.publish(ACCEPTED, _accepted_rows(accepted, task.declaration.epoch))
    step.publish(DEAD_LETTER, _dead_rows(dead, task.declaration.epoch))

    users, times = accepted["user"].to_pylist(), accepted["event_time_ms"].to_pylist()
    partial = Counter((user, windows.start(time_ms)) for user, time_ms in zip(users, times, strict=True))
    late = sum(reason == "late" for reason in dead["reason"].to_pylist())
    out: list[dict[str, Any]] = [
        {"kind": "partial", "user": user, "window_start_ms": start, "count": count}
        for (user, start), count in partial.items()
    ]
    out.append(step.summary(
        read=rows.num_rows, accepted=accepted.num_rows, late=late, malformed=dead.num_rows - late,
        duplicate=timely.num_rows - accepted.num_rows, max_event_time_ms=max(times, default=None),
        catalog=known.summary(),
    ))  # fmt: skip
    yield from pa.Table.from_pylist(out, BETWEEN_SCHEMA).to_batches()


def count(task: EpochTask, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Partial counts of one shard by user -> state, closed windows published; partial sums per window returned."""
    step = ShardStep(task, "count")
    table = pa.Table.from_batches(batches, BETWEEN_SCHEMA)
    partial = table.filter(pc.equal(table["kind"], "partial"))
    passed = table.filter(pc.equal(table["kind"], "shard"))
    summed: Counter[tuple[str, int]] = Counter()
    columns = (partial[name].to_pylist() for name in ("user", "window_start_ms", "count"))
    for user, start, number in zip(*columns, strict=True):
        summed[user, start] += number
    delta = [{"user": user, "window_start_ms": start, "count": n} for (user, start), n in sorted(summed.items())]

    windows, pinned, log = task.windows, task.declaration, step.log(state.KIND, state.canonical)
    named = task.deltas_of(state.KIND, step.shard)
    counts = _folder().state(log, lambda: state.WindowCounts(windows), named, pinned.epoch)
    counts.expire(pinned.previous_watermark_ms)
    step.decide(log, pa.Table.from_pylist(delta, state.SCHEMA))
    final = counts.final(pinned.previous_watermark_ms, pinned.watermark_ms)
    step.publish(USER_COUNTS, [_count_row(user, start, n, pinned.epoch) for user, start, n in final])

    sums: Counter[int] = Counter()
    for _, start, number in final:
        sums[start] += number
    out: list[dict[str, Any]] = [{"kind": "global", "window_start_ms": start, "count": n} for start, n in sums.items()]
    out.append(step.summary())
    yield from passed.to_batches()
    yield from pa.Table.from_pylist(out, BETWEEN_SCHEMA).to_batches()


def _in_source_order(batches: Iterable[pa.RecordBatch], step: ShardStep) -> pa.Table:
    """All rows of the shard, lowest source coordinate first (R4), each asserted to belong to the shard."""
    held = list(batches)
    if not held:
        return _empty()
    rows = pa.Table.from_batches(held)
    if rows.num_rows and pc.unique(rows["shard"]).to_pylist() != [step.shard]:
        raise ChainError(
            f"rows of shards {pc.unique(rows['shard']).to_pylist()} came to shard {step.shard}",
            f"epoch {step.task.declaration.epoch}", "Adaptive execution must be off in this session.",
        )  # fmt: skip
    return rows.sort_by([("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")])


def _empty() -> pa.Table:
    text, whole = pa.string(), pa.int64()
    return pa.schema([
        ("shard", pa.int32()), ("topic", text), ("partition", pa.int32()), ("offset", whole), ("id", text),
        ("user", text), ("event_time_ms", whole), ("payload", text), ("crc", whole), ("reason", text),
        ("value", pa.binary()),
    ]).empty_table()  # fmt: skip


def _columns(table: pa.Table, *names: str) -> Iterator[tuple[Any, ...]]:
    """Rows of some columns as tuples: a third of the time of a dictionary a row."""
    return zip(*(table[name].to_pylist() for name in names), strict=True)


def _accepted_rows(accepted: pa.Table, epoch: int) -> list[Row]:
    names = ("topic", "partition", "offset", "id", "user", "event_time_ms", "payload", "crc")
    return [
        (user.encode(), orjson.dumps({
            "id": identity, "user": user, "event_time_ms": time_ms, "payload": payload, "crc": crc, "epoch": epoch,
            "source": (topic, partition, offset),
        }))
        for topic, partition, offset, identity, user, time_ms, payload, crc in _columns(accepted, *names)
    ]  # fmt: skip


def _dead_rows(dead: pa.Table, epoch: int) -> list[Row]:
    """Records as they came, as text where they are text, with the reason they were refused for."""
    names = ("topic", "partition", "offset", "reason", "id", "value")
    rows: list[Row] = []
    for topic, partition, offset, reason, identity, value in _columns(dead, *names):
        try:
            content, encoding = (value or b"").decode(), "utf-8"
        except UnicodeDecodeError:
            content, encoding = base64.b64encode(value).decode(), "base64"
        line = {"reason": reason, "id": identity, "value": content, "encoding": encoding, "epoch": epoch,
                "source": (topic, partition, offset)}  # fmt: skip
        rows.append((None, orjson.dumps(line)))
    return rows


def _count_row(user: str, start_ms: int, number: int, epoch: int) -> Row:
    line = {"user": user, "window_start_ms": start_ms, "count": number, "epoch": epoch}
    return user.encode(), orjson.dumps(line)


@lru_cache(maxsize=1)
def _folder() -> deltas.Folder:
    """One per Python worker: state stays folded between epochs."""
    return deltas.Folder()


@lru_cache(maxsize=256)
def _plain(address: ShardAddress) -> PlainSink:
    """One per Python worker and shard."""
    return PlainSink(address)


@lru_cache(maxsize=256)
def _sink(address: ShardAddress) -> ShardSink:
    """One per Python worker and shard: producers stay open between epochs."""
    return ShardSink(address)
