"""A pipeline in memory whose epochs are whole: the product's chain, steps, deltas and publishing; no Spark, no server.

A driver here is what `Driver` is, without its batches: it repeats what is declared, repairs what is due, and declares
the next epoch over the next records. A shard can be given only a part of its rows, or be stopped half-way.
"""

from __future__ import annotations

import itertools
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from effectively_once import Count, Pipeline, Sum, ToFiles, ToKafka, ToTable, Windowed
from effectively_once.driver import reshard
from effectively_once.epoch import between, epoch
from effectively_once.epoch.epoch_task import EpochTask
from effectively_once.epoch.rows import empty
from effectively_once.epoch.shard_step import ShardStep
from effectively_once.epoch.summary import Summary
from effectively_once.ledger import chain, digest, due_epoch, pinned_version, segments
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.ledger.head import Head
from effectively_once.ledger.held import Held
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import run
from effectively_once.ledger.rows import Rows
from effectively_once.operate.abandon.abandonment import Files
from effectively_once.operate.abandon.fenced import sources
from effectively_once.operate.abandon.mending import Mending
from effectively_once.operate.abandon.visible import VisibleRows
from effectively_once.pipeline.columns import COORDINATES, DEAD_LETTER
from effectively_once.sinks.kafka import describe
from effectively_once.sinks.manifest import ManifestSink
from effectively_once.sinks.publish import (
    Commit,
    Committed,
    EndHanging,
    Mark,
    Open,
    Published,
    ReadMark,
    SinkAnswer,
    SinkRequest,
    begin,
    publish,
)
from effectively_once.state import windows
from effectively_once.state.lateness import Windows
from effectively_once.state.live import LiveDeltas
from tests.settings import pipeline_settings
from tests.unit.library.driven import driven
from tests.unit.library.listed_store import ListedStore

SHARDS, TOPIC, OLD, MENDED = 2, "events", "a" * 64, "b" * 64
NUMBERS = itertools.count()
COLUMNS = pa.schema([("user", pa.string()), ("amount", pa.int64())])
WINDOWS = (
    Windowed("user", {"n": Count(), "sum": Sum("amount")}, ToTable("per_user"), totals=ToFiles("totals")),
    Windowed("id", {"n": Count()}, ToKafka("per_id")),
)
ORDERS = Pipeline(
    lambda frame: frame,
    COLUMNS,
    window_ms=100,
    lateness_ms=100,
    windows=WINDOWS,
    rows=(ToKafka("accepted", key="user"), ToTable("orders"), ToFiles("archive")),
)
Record = dict[str, Any]
"""`id`, `event_time_ms`, and maybe `reason`."""
Killed = KeyboardInterrupt


def home(key: str, shards: int) -> int:
    """Deal rows to shards by a rule of this world's own."""
    return zlib.crc32(key.encode()) % shards


@dataclass
class MemorySink:
    """A shard of a sink that publishes by the product's step; it keeps what it shows by epoch.

    Attributes:
        before: what others do before it is opened.
        open: what others do while its transaction is open.

    """

    place: tuple[str, int]
    log: dict[int, Any] = field(default_factory=dict)
    last: Mark | None = None
    before: Callable[[int], object] = lambda _: None
    open: Callable[[int], object] = lambda _: None
    owner: object = None
    constraint: Callable[[pa.Table], dict[int, str]] = lambda _: {}

    def find_refused(self, generation: int, rows: pa.Table) -> dict[int, str]:
        return self.constraint(rows)

    def publish(self, number: int, generation: int, rows: Any) -> tuple[Rows, Published]:
        self.before(number)
        table = isinstance(rows, pa.Table)
        content = Rows(rows=rows.num_rows, digest=digest.of_rows_in(rows)) if table else describe(rows)
        step = publish(Mark(number, generation, content.rows, content.digest), None, str(self))
        return content, driven(step, self._server(number, rows))

    def begin(self, number: int, generation: int) -> Mark:
        """Begin, as a shard does that the last epoch did not have."""
        self.before(number)
        return driven(begin(Mark(number, generation, 0, digest.EMPTY), str(self)), self._server(number, None))

    @property
    def address(self) -> object:
        return self

    def _server(self, number: int, rows: Any) -> Callable[[SinkRequest], SinkAnswer]:
        owner = object()

        def answer(request: SinkRequest) -> SinkAnswer:
            match request:
                case Open():
                    self.owner = owner
                    return None
                case EndHanging():
                    return False
                case ReadMark():
                    last = self.last
                    self.open(number)
                    return last
                case Commit(mark) if self.owner is owner:
                    self.last = mark
                    if rows is not None:
                        self.log[number] = rows
                    return Committed.YES
            return Committed.FENCED

        return answer

    def mark(self) -> Mark | None:
        return self.last

    def fence(self, generation: int) -> Mark | None:
        self.owner = None
        return self.last

    def rows(self, mark: Mark) -> VisibleRows:
        shown = self.log[mark.epoch]
        if isinstance(shown, pa.Table):
            return VisibleRows(f"table t.{self.place[0]}", None if mark.rows else COORDINATES.empty_table())
        return VisibleRows(f"topic t.{self.place[0]} partition {self.place[1]}", sources([value for _, value in shown]))

    def all(self) -> list[Record]:
        """Return every row that is visible."""
        found: list[Record] = []
        for number in sorted(self.log):
            rows = self.log[number]
            if isinstance(rows, pa.Table):
                found += rows.to_pylist()
            else:
                found += [orjson.loads(value) for _, value in rows]
        return found

    def __str__(self) -> str:
        return f"sink {self.place[0]} shard {self.place[1]}"


class World:
    """One pipeline, and the records of its input.

    Attributes:
        home: the rule by which rows are dealt to shards. The product knows Spark's, once the number of shards changes.

    """

    def __init__(self, records: Sequence[Record], size: int, pipeline: Pipeline = ORDERS, topic: str = TOPIC) -> None:
        self.pipeline, self.records, self.size, self.store = pipeline, list(records), size, ListedStore()
        self.topic, self.topic_ids = topic, {topic: "id"}
        name = f"orders_{next(NUMBERS)}"
        self.layout = Layout(name)
        self.settings = pipeline_settings(
            pipeline=name, shards=SHARDS, database="postgresql://h:1/d", **pipeline.defaults
        )
        self.windows = Windows(self.settings.window_ms, self.settings.lateness_ms)
        self.home = home
        self.sinks: dict[tuple[str, int], MemorySink] = {}
        self.reshard(SHARDS)
        self.told: list[str] = []
        self.tried: tuple[str, ...] = ()
        self.bytes_max: int | None = None

    def copy(self, records: Sequence[Record]) -> World:
        """Return another one of the same name in which the same was published; of one only the epochs may go on."""
        other = World(records, self.size, self.pipeline, self.topic)
        other.layout, other.settings, other.store.objects = self.layout, self.settings, dict(self.store.objects)
        other.home = self.home
        other.reshard(self.shards)
        for place, sink in self.sinks.items():
            other.sinks[place].log, other.sinks[place].last = dict(sink.log), sink.last
        return other

    @property
    def shards(self) -> int:
        """As the settings have it."""
        return self.settings.shards

    def reshard(self, shards: int) -> None:
        """Set another number of shards, and make what its sinks need, as `create` does."""
        self.settings = self.settings.model_copy(update={"shards": shards})
        for name in (*self.pipeline.kafka_sinks, *self.pipeline.tables):
            for shard in range(shards):
                self.sinks.setdefault((name, shard), MemorySink((name, shard)))

    def open_shards(self, numbers: Iterable[int]) -> list[MemorySink]:
        """Return shards of these numbers of every sink with marks."""
        wanted = [*numbers]
        return [sink for (_, shard), sink in self.sinks.items() if shard in wanted]

    @property
    def head(self) -> Head:
        return run(chain.read(self.layout), self.store)

    @property
    def declared(self) -> Declaration:
        declared = self.head.declared
        assert declared is not None
        return declared

    def mending(self) -> Mending:
        shown = [Files(name, self.manifests(name)) for name in self.pipeline.file_sinks]
        return Mending(self.layout, self.store, self.pipeline, tuple(self.sinks.values()), shown, self.told.append)

    def repair(self, wheel: str = OLD) -> None:
        """Carry the command out."""
        self.mending().look(self.declared)
        self.mending().carry_out(self.declared, wheel)

    def opened(self, sink: str, shard: int, number: int) -> Any:
        """Open a sink for an epoch."""
        return self.sinks[sink, shard]

    def manifests(self, name: str) -> ManifestSink:
        return ManifestSink(self.store, self.layout, name)

    def visible(self) -> dict[str, Counter[str]]:
        """What each sink shows, without what tells in which epoch and, of accepted rows, which copy it was."""
        found: dict[str, Counter[str]] = {}
        for name, rows in self.rows().items():
            without = {"epoch"} if name == DEAD_LETTER else {"epoch", "source", "topic", "partition", "offset"}
            kept = ({key: value for key, value in row.items() if key not in without} for row in rows)
            found[name] = Counter(orjson.dumps(row, str, orjson.OPT_SORT_KEYS).decode() for row in kept)
        return found

    def rows(self) -> dict[str, list[Record]]:
        """Every row that is visible, by sink."""
        found: dict[str, list[Record]] = {}
        for (name, _), sink in self.sinks.items():
            found.setdefault(name, []).extend(sink.all())
        for name in self.pipeline.file_sinks:
            found[name] = [row for _, _, row in self.manifests(name).rows(self.head.last_recorded)]
        return found

    def counts(self) -> Counter[str]:
        """Counts of all epochs."""
        records = run(segments.history(self.layout, self.head), self.store)
        found: Counter[str] = Counter()
        for record in records:
            found.update(record.counts.model_dump(by_alias=True))
        return found

    def driver(self, wheel: str = OLD) -> WorldDriver:
        """Start one, as `Driver.check` does."""

        def accept(head: Head) -> None:
            pinned_version.same_version(head, wheel, self.layout.head)

        settings = {"shards": self.shards}
        held = run(chain.take_over(self.layout, f"driver {next(NUMBERS)}", settings, accept), self.store)
        return WorldDriver(self, held, wheel)


@dataclass
class WorldDriver:
    """A driver.

    Attributes:
        part: of the rows that come to a shard in the first step; all of them by default.
        partials: of what comes to a shard in the second one.

    """

    of: World
    held: Held
    wheel: str
    part: Callable[[int, pa.Table], pa.Table] = lambda _, rows: rows
    partials: Callable[[int, pa.Table], pa.Table] = lambda _, rows: rows

    def __post_init__(self) -> None:
        head = self.held.head
        records = run(segments.history(self.of.layout, head, head.floor), self.of.store)
        self.live = LiveDeltas(self.of.layout, self.of.pipeline.all_windows(self.of.windows), records, head.floor)

    def run(self, epochs: int) -> None:
        """Finish what is declared, repair what is due, and publish so many epochs; record each."""
        self.start()
        for _ in range(epochs):
            self.finish(self.declare())
            self.take_rest()

    def start(self) -> None:
        """What `Driver.start` does before its query."""
        if self.held.head.declared is not None:
            self.finish(self.held.head.declared)
        self.take_rest()
        reshard.begin_shards(self.held.head, self.of.shards, self.of.open_shards, lambda: None)

    def take_rest(self) -> None:
        """Publish what the last epoch has left, before anything else is declared."""
        while (due := due_epoch.repair(self.held.head)) is not None:
            if due.is_rest:
                # As `Declarations.fresh`.
                due = due.model_copy(update={"wheel_digest": self.wheel, "bytes_max": self.of.bytes_max})
            floor = self.live.floor(due)
            self.held = run(chain.declare(self.of.layout, self.held, due, None, floor), self.of.store)
            self.finish(due)

    def declare(self) -> Declaration:
        head = self.held.head
        last = head.tail[-1] if head.tail else None
        first = last.ranges[self.of.topic]["0"][1] if last else 0
        pinned = Declaration(
            epoch=head.last_recorded + 1,
            lineage="000001-abcd",
            batch_id=head.last_recorded + 1,
            ranges={self.of.topic: {"0": (first, min(first + self.of.size, len(self.of.records)))}},
            topic_ids=self.of.topic_ids,
            watermark_ms=head.watermark_ms,
            previous_watermark_ms=last.watermark_ms if last else None,
            shards=self.of.shards,
            wheel_digest=self.wheel,
            settings_digest="c" * 32,
            tried=self.of.tried,
            bytes_max=self.of.bytes_max,
        )
        self.held = run(chain.declare(self.of.layout, self.held, pinned, None, self.live.floor(pinned)), self.of.store)
        return self.of.declared

    def finish(self, pinned: Declaration) -> None:
        """Publish an epoch and record it, as `Publisher.recover` does."""
        ranges = due_epoch.input_of(self.held.head, pinned)
        self.record(pinned, self.attempt(pinned, *ranges[self.of.topic]["0"]))

    def attempt(self, pinned: Declaration, first: int, end: int) -> pa.Table:
        """Run both steps on every shard; return what they told."""
        pipeline = self.of.pipeline
        whole = self.judged(pinned, first, end)
        told = pa.concat_tables(
            [
                self._table(epoch.deduplicate(self.step(pinned, "dedup", shard), self._of(whole, shard)))
                for shard in range(pinned.shards)
            ]
        )
        if not pipeline.windows:
            return told
        owner = pa.array([self.of.home(key or "", pinned.shards) for key in told[windows.KEY].to_pylist()])
        return pa.concat_tables(
            [
                self._table(
                    epoch.merge_partials(
                        self.step(pinned, "windows", shard),
                        self.partials(shard, told.filter(pc.equal(owner, shard))).to_batches(),
                    )
                )
                for shard in range(pinned.shards)
            ]
        )

    def record(self, pinned: Declaration, told: pa.Table) -> EpochRecord:
        generation, summary = self.held.head.generation, Summary.of(told)
        summary.publish_files(self.of.pipeline, told, pinned, generation, self.of.manifests)
        record = summary.record(pinned, generation, self.of.pipeline, pinned.shards)
        self.held = run(chain.record(self.of.layout, self.held, record), self.of.store)
        self.live.add(record)
        return record

    def judged(self, pinned: Declaration, first: int, end: int) -> pa.Table:
        """Rows as `rows.timely` and `in_shards` give them; user and amount are functions of the id."""
        rows = []
        for offset in range(first, end):
            record = {"id": None, "reason": None, **self.of.records[offset]}
            late = self.of.windows.closed(self.of.windows.start(record["event_time_ms"]), pinned.watermark_ms)
            reason = record["reason"] or ("late" if late else None)
            key = record["id"] if self.of.pipeline.ids == "attached" and record["id"] else f"{self.of.topic}-0-{offset}"
            hashed = zlib.crc32(str(record["id"]).encode())
            rows.append(
                {
                    "topic": self.of.topic,
                    "partition": 0,
                    "offset": offset,
                    "user": f"u{hashed % 3}",
                    "amount": hashed % 7,
                    **record,
                    "reason": reason,
                    "value": b"{}" if reason or self.of.tried else None,
                    "shard": self.of.home(key, pinned.shards),
                }
            )
        return pa.Table.from_pylist(rows, empty(self.of.pipeline).schema)

    def step(self, pinned: Declaration, name: str, shard: int) -> ShardStep:
        task = EpochTask(
            self.of.pipeline,
            self.of.settings,
            pinned,
            self.held.head.generation,
            self.held.head.owner,
            self.live.list_named(),
        )

        def opened(sink: str, shard: int, _: Any) -> Any:
            return self.of.opened(sink, shard, pinned.epoch)

        return ShardStep(task, name, shard, 0, store=self.of.store, opened=opened)

    def _of(self, whole: pa.Table, shard: int) -> list[pa.RecordBatch]:
        rows = self.part(shard, whole.filter(pc.equal(whole["shard"], shard)))
        return rows.to_batches() if rows.num_rows else []

    def _table(self, batches: Iterable[pa.RecordBatch]) -> pa.Table:
        return pa.Table.from_batches(batches, between.columns(self.of.pipeline))
