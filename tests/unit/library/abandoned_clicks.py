"""Clicks whose epochs can be abandoned: the chain, sinks in memory, and drivers with and without input."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from effectively_once.ledger import chain, digest
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.ledger.head import Head
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import run
from effectively_once.ledger.rows import Rows
from effectively_once.operate.abandon.abandonment import Abandonment, Files
from effectively_once.sinks.kafka import describe
from effectively_once.sinks.kafka_shard import Row
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
    publish,
)
from effectively_once.state import catalog
from tests.unit.library.driven import driven
from tests.unit.library.ledger_driver import (
    COUNTS,
    EPOCH_ROWS,
    SHARDS,
    LedgerDriver,
    accepted_once,
    global_counts,
)
from tests.unit.library.listed_store import ListedStore
from tests.unit.library.names import ACCEPTED, GLOBAL_COUNTS, KAFKA_SINKS, USER_COUNTS

LAYOUT = Layout("clicks")
MENDED = "c" * 64


@dataclass
class MemoryShard:
    """A shard that publishes by the product's step; `meanwhile` is what others do right before it is published to."""

    name: str
    rows: list[bytes] = field(default_factory=list)
    last: Mark | None = None
    owner: object = None
    kept: Mark | None = None
    meanwhile: list[Callable[[MemoryShard], None]] = field(default_factory=list)

    def mark(self) -> Mark | None:
        return self.last

    def fence(self, generation: int) -> Mark | None:
        self.owner, self.kept = "operator", self.last
        return self.last

    def publish_nothing(self, epoch: int, generation: int) -> Published:
        if self.meanwhile:
            self.meanwhile.pop(0)(self)
        kept, self.kept = self.kept, None
        return self.publish(Mark(epoch, generation, 0, digest.EMPTY), [], kept, "operator")

    def begin(self, epoch: int, generation: int) -> None:
        self.last = self.last or Mark(epoch, generation, 0, digest.EMPTY)

    def publish(self, mark: Mark, rows: list[bytes], kept: Mark | None, owner: object) -> Published:
        return driven(publish(mark, kept, self.name), lambda request: self._answer(request, rows, owner))

    def _answer(self, request: SinkRequest, rows: list[bytes], owner: object) -> SinkAnswer:
        match request:
            case Open():
                self.owner = owner
                return None
            case EndHanging():
                return False
            case ReadMark():
                return self.last
            case Commit(mark) if self.owner == owner:
                self.last, self.rows = mark, [*self.rows, *rows]
                return Committed.YES
        return Committed.FENCED

    def __str__(self) -> str:
        return self.name


class Following(LedgerDriver):
    """A driver of another version, whose epochs begin where the chain ends."""

    def _declaration(self, epoch: int, watermark_ms: int | None, tail: tuple[EpochRecord, ...]) -> Declaration:
        pinned = super()._declaration(epoch, watermark_ms, tail)
        start = tail[-1].ranges[self._topic]["0"][1] if tail else 0
        ranges = {self._topic: {"0": (start, start + EPOCH_ROWS)}}
        return pinned.model_copy(update={"ranges": ranges, "wheel_digest": MENDED})


class Idle(Following):
    """One that begins a lineage on an idle topic: its first epoch reads nothing, and closes what is due."""

    _begun = False

    def _declaration(self, epoch: int, watermark_ms: int | None, tail: tuple[EpochRecord, ...]) -> Declaration:
        pinned = super()._declaration(epoch, watermark_ms, tail)
        if self._begun:
            return pinned
        self._begun, end = True, tail[-1].ranges[self._topic]["0"][1]
        return pinned.model_copy(update={"ranges": {self._topic: {"0": (end, end)}}})


class Clicks:
    """A pipeline in memory; its epochs are run step by step."""

    def __init__(self) -> None:
        self.store = ListedStore()
        self.shards = {(sink, n): MemoryShard(f"sink {sink} shard {n}") for sink in KAFKA_SINKS for n in range(SHARDS)}
        self.told: list[str] = []

    def start(self, owner: str, kind: type[LedgerDriver] = Following) -> LedgerDriver:
        def publish_rows(sink: str, shard: int, epoch: int, generation: int, rows: list[Row]) -> Rows:
            content = describe(rows)
            mark = Mark(epoch, generation, content.rows, content.digest)
            self.shards[sink, shard].publish(mark, [value for _, value in rows], None, owner)
            return content

        return kind.started(self.store, LAYOUT, owner, publish=publish_rows)

    def until(self, owner: str, last: str, epochs: int = 0, kind: type[LedgerDriver] = Following) -> LedgerDriver:
        """Publish so many epochs, and go on to a step of the one after; the driver stays as it is."""
        driver = self.start(owner, kind)
        for step in driver.steps():
            if step == last and not epochs:
                return driver
            epochs -= step == "published"
        raise AssertionError(last)

    def interrupt(self, operation: Callable[[], object], after: int = 0) -> None:
        """Let what an operator does end right before it publishes to the shard behind so many."""

        def die(_: MemoryShard) -> None:
            raise KeyboardInterrupt

        list(self.shards.values())[after].meanwhile.append(die)
        with pytest.raises(KeyboardInterrupt):
            operation()

    @property
    def head(self) -> Head:
        return run(chain.read(LAYOUT), self.store)

    @property
    def declared(self) -> Declaration:
        declared = self.head.declared
        assert declared is not None
        return declared

    def abandonment(self) -> Abandonment:
        files = (Files(GLOBAL_COUNTS, ManifestSink(self.store, LAYOUT, GLOBAL_COUNTS)),)
        sinks = {**dict.fromkeys(KAFKA_SINKS, SHARDS), GLOBAL_COUNTS: 1}
        return Abandonment(
            LAYOUT, self.store, tuple(self.shards.values()), files, [catalog.KIND, COUNTS], sinks, self.told.append
        )

    def assert_exact(self, epochs: int) -> None:
        """Assert that what so many epochs read is published once, and no window is missing."""
        rows = {
            sink: [json.loads(row) for n in range(SHARDS) for row in self.shards[sink, n].rows] for sink in KAFKA_SINKS
        }
        assert sorted(row["id"] for row in rows[ACCEPTED]) == accepted_once(epochs)
        expected = Counter({at: number for _, at, number in global_counts(epochs)})
        by_window: Counter[int] = Counter()
        for _, at, number, _ in rows[USER_COUNTS]:
            by_window[at] += number
        assert by_window == expected
        manifests = ManifestSink(self.store, LAYOUT, GLOBAL_COUNTS).rows(self.head.last_recorded)
        found = [(row["window_start_ms"], row["count"]) for _, _, row in manifests]
        assert found == sorted(expected.items())
