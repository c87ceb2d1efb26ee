"""A driver without Spark: chain, deltas, windows and manifests are the product's, the records are made up.

Record `n` of the input carries id `n`, or, every fifth, that of an older record; an epoch reads ten. What it publishes
to sinks that are no object-store sinks is handed to `publish`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator

import pyarrow as pa

from effectively_once.ledger import chain, segments
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.delta import Delta, Span
from effectively_once.ledger.epoch_record import Counts, EpochRecord
from effectively_once.ledger.held import Held
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import ObjectStore, delete_all, run
from effectively_once.ledger.offsets import Ranges
from effectively_once.ledger.rows import Rows
from effectively_once.sinks.kafka_shard import Row
from effectively_once.sinks.manifest import ManifestSink
from effectively_once.state import catalog, merge
from effectively_once.state import windows as state
from effectively_once.state.accumulators import accumulators
from effectively_once.state.aggregates import Count
from effectively_once.state.deltas import Named, ShardDeltas
from effectively_once.state.lateness import Windows
from effectively_once.state.live import LiveDeltas
from tests.unit.library.names import ACCEPTED, DEAD_LETTER, GLOBAL_COUNTS, USER_COUNTS

TOPIC, WHEEL, SHARDS, EPOCH_ROWS, RECORD_MS = "events", "a" * 64, 2, 10, 100
WINDOWS = Windows(1000, 1000)
BOUND = {"topic": TOPIC, "shards": SHARDS, "window_ms": WINDOWS.length_ms, "lateness_ms": WINDOWS.lateness_ms}
COUNTS, COUNTED = "counts", accumulators({"count": Count()}, pa.schema([]))
COUNT = {"count": Count()}
INLINE_BYTES = (0, 10_000)
"""By shard: the deltas of one are objects, those of the other travel in the record."""
GLOBAL_SCHEMA = pa.schema([("window_start_ms", pa.int64()), ("count", pa.int64())])
Publish = Callable[[str, int, int, int, list[Row]], Rows]
"""(sink, shard, epoch, generation, rows) -> what the mark says."""


def identity(offset: int) -> int:
    """Id of a record: every fifth is a copy of one that an epoch before, or the same, accepted."""
    return offset if offset % 5 or offset < EPOCH_ROWS else offset - 7


class LedgerDriver:
    """Runs epochs step by step.

    Args:
        fan: how many deltas are merged; so short a chain as tests have has never 64 that live.
        windows: those of the pipeline.

    Attributes:
        held: head as it holds it.

    """

    def __init__(
        self,
        store: ObjectStore,
        layout: Layout,
        held: Held,
        live: LiveDeltas,
        *,
        publish: Publish = lambda *_: Rows(),
        topic: str = TOPIC,
        topic_id: str = "id-of-events",
        fan: int = merge.FAN,
        windows: Windows = WINDOWS,
    ) -> None:
        self.held, self._fan, self._windows = held, fan, windows
        self._store, self._layout, self._live, self._publish = store, layout, live, publish
        self._topic, self._topic_id = topic, topic_id
        self._published: EpochRecord | None = None

    @classmethod
    def started(
        cls,
        store: ObjectStore,
        layout: Layout,
        owner: str = "first",
        *,
        publish: Publish = lambda *_: Rows(),
        fan: int = merge.FAN,
        windows: Windows = WINDOWS,
    ) -> LedgerDriver:
        """Take over, as a driver does whose sinks need no start check."""
        held = run(chain.take_over(layout, owner, BOUND), store)
        records = run(segments.history(layout, held.head, held.head.floor), store)
        live = LiveDeltas(layout, (windows,), records, held.head.floor)
        return cls(store, layout, held, live, publish=publish, fan=fan, windows=windows)

    def steps(self) -> Iterator[str]:
        """Repeat what is declared, then run epoch after epoch; yields the name of each step that was done."""
        if self.held.head.declared is not None:
            yield from self._epoch(self.held.head.declared)
        while True:
            head = chain.record_epoch(self.held.head, self._published)
            declaration = self._declaration(head.last_recorded + 1, head.watermark_ms, head.tail)
            floor = self._live.floor(declaration)
            self.held = run(chain.declare(self._layout, self.held, declaration, self._published, floor), self._store)
            self._published = None
            yield "declared"
            run(delete_all(self._live.take_out(self.held.head.floor)), self._store)
            yield "collected"
            assert self.held.head.declared is not None
            yield from self._epoch(self.held.head.declared)

    def run(self, epochs: int) -> None:
        """Publish so many epochs, a repeat counts, and record the last."""
        for step in self.steps():
            epochs -= step == "published"
            if not epochs:
                break
        self.stop()

    def stop(self) -> None:
        """Record what is published, as a driver that is stopped in order does."""
        if self._published is not None:
            self.held = run(chain.record(self._layout, self.held, self._published), self._store)
            self._published = None

    def _declaration(self, epoch: int, watermark_ms: int | None, tail: tuple[EpochRecord, ...]) -> Declaration:
        ranges: Ranges = {self._topic: {"0": (epoch * EPOCH_ROWS, (epoch + 1) * EPOCH_ROWS)}}
        return Declaration(
            epoch=epoch,
            lineage="000001-abcd",
            batch_id=epoch,
            ranges=ranges,
            topic_ids={self._topic: self._topic_id},
            watermark_ms=watermark_ms,
            previous_watermark_ms=tail[-1].watermark_ms if tail else None,
            shards=SHARDS,
            wheel_digest=WHEEL,
            settings_digest="b" * 32,
        )

    def _epoch(self, declared: Declaration) -> Iterator[str]:
        epoch, generation = declared.epoch, self.held.head.generation
        start, end = declared.ranges[self._topic]["0"]
        sinks: dict[str, dict[str, Rows]] = {ACCEPTED: {}, DEAD_LETTER: {}, USER_COUNTS: {}}
        written: dict[str, dict[str, Delta]] = {catalog.KIND: {}, COUNTS: {}}
        merged: dict[str, dict[str, Span]] = {}
        accepted: list[int] = []
        for shard in range(SHARDS):
            log = self._log(catalog.KIND, shard)
            seen = {int(name) for named in self._named(log) for name in log.read(named)["id"].to_pylist()}
            ours = dict.fromkeys(n for n in map(identity, range(start, end)) if n % SHARDS == shard and n not in seen)
            delta = [{"id": str(n), "event_time_ms": n * RECORD_MS} for n in ours]
            written[log.kind][str(shard)] = log.write(epoch, pa.Table.from_pylist(delta, catalog.SCHEMA))
            yield f"decided {shard}"
            rows: list[Row] = [(None, json.dumps({"id": n, "epoch": epoch}).encode()) for n in ours]
            sinks[ACCEPTED][str(shard)] = self._publish(ACCEPTED, shard, epoch, generation, rows)
            sinks[DEAD_LETTER][str(shard)] = self._publish(DEAD_LETTER, shard, epoch, generation, [])
            self._merge(log, merged)
            accepted += ours
            yield f"accepted {shard}"
        sums: Counter[int] = Counter()
        for shard in range(SHARDS):
            log = self._log(COUNTS, shard)
            counts = state.WindowState(self._windows, COUNTED)
            for named in self._named(log):
                counts.fold(log.read(named))
            counts.expire(declared.previous_watermark_ms)
            added = Counter(self._windows.start(n * RECORD_MS) for n in accepted if n % 3 % SHARDS == shard)
            delta = [{"key": f"u{shard}", "window_start_ms": at, "count": n} for at, n in sorted(added.items())]
            written[log.kind][str(shard)] = log.write(epoch, pa.Table.from_pylist(delta, state.schema(COUNTED)))
            closed = counts.final(declared.previous_watermark_ms, declared.watermark_ms)
            final = [tuple(row.values()) for row in closed.to_pylist()]
            rows = [(user.encode(), json.dumps([user, at, n, epoch]).encode()) for user, at, n in final]
            sinks[USER_COUNTS][str(shard)] = self._publish(USER_COUNTS, shard, epoch, generation, rows)
            self._merge(log, merged)
            for _, at, n in final:
                sums[at] += n
            yield f"counted {shard}"
        table = pa.table({"window_start_ms": sorted(sums), "count": [sums[at] for at in sorted(sums)]}, GLOBAL_SCHEMA)
        content, _ = ManifestSink(self._store, self._layout, GLOBAL_COUNTS).publish(epoch, generation, table)
        self._published = EpochRecord(
            **declared.model_dump(),
            generation=generation,
            counts=Counts.model_validate(
                {"in": end - start, "accepted": len(accepted), "duplicate": end - start - len(accepted)}
            ),
            max_event_time_ms=max(accepted) * RECORD_MS if accepted else None,
            sinks={**sinks, GLOBAL_COUNTS: {"0": content}},
            deltas=written,
            merged=merged,
        )
        self._live.add(self._published)
        yield "published"

    def _merge(self, log: ShardDeltas, into: dict[str, dict[str, Span]]) -> None:
        """Merge in this thread: others would wait for a store that is held meanwhile."""
        span = merge.merge_oldest(
            log, self._live.list_named().get(log.kind, {}).get(log.shard, []), self._fan, readers=1
        )
        if span is not None:
            into.setdefault(log.kind, {})[str(log.shard)] = span

    def _named(self, log: ShardDeltas) -> list[Named]:
        return [named for named in self._live.list_named().get(log.kind, {}).get(log.shard, []) if named.rows.rows]

    def _log(self, kind: str, shard: int) -> ShardDeltas:
        canonical = catalog.canonical if kind == catalog.KIND else state.canonical
        return ShardDeltas(self._store, self._layout, kind, shard, canonical, inline_bytes=INLINE_BYTES[shard])


def accepted_once(epochs: int) -> list[int]:
    """Ids that so many epochs accept, each once, ascending."""
    return sorted({identity(offset) for offset in range(epochs * EPOCH_ROWS)})


def global_counts(epochs: int, windows: Windows = WINDOWS) -> list[tuple[int, int, int]]:
    """(epoch, window start, count) of every window that so many epochs close."""
    totals = Counter(windows.start(n * RECORD_MS) for n in accepted_once(epochs))
    found, previous, watermark, seen = [], None, None, 0
    for epoch in range(epochs):
        found += [(epoch, at, n) for at, n in sorted(totals.items()) if windows.newly_closed(at, previous, watermark)]
        seen = max(seen, *(identity(offset) for offset in range(epoch * EPOCH_ROWS, (epoch + 1) * EPOCH_ROWS)))
        previous, watermark = watermark, seen * RECORD_MS
    return found
