"""The driver's own part of a start: what is declared is finished first, and repaired where it was shown in part."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from effectively_once.driver import control, driver
from effectively_once.driver.batches import Batches
from effectively_once.driver.checkpoints import Checkpoint
from effectively_once.driver.declarations import Declarations
from effectively_once.driver.driver import Driver
from effectively_once.driver.epoch_job import EpochJob, Outcome
from effectively_once.driver.held_chain import HeldChain
from effectively_once.driver.input_watch import InputWatch
from effectively_once.driver.lineage import lineage_of
from effectively_once.driver.metrics import Metrics
from effectively_once.driver.publisher import Publisher
from effectively_once.epoch import rows
from effectively_once.epoch.summary import Summary
from effectively_once.errors import SourceError, VersionError
from effectively_once.ledger import chain
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.objects import run
from effectively_once.ledger.offsets import Ranges
from tests.unit.ledger.samples import due_of
from tests.unit.library.broken_epochs import HIT, assert_goes_on, broken
from tests.unit.library.orders_world import MENDED, OLD, TOPIC, World

SPARK: Any = None


class MemoryDriver(Driver):
    """The product's driver, with an attempt that runs the steps here and not in Spark."""

    def __init__(self, world: World, wheel: str = OLD) -> None:
        self._inner = world.driver(wheel)
        self.of, self.failure, self._watch = world, None, None
        job: Any = SimpleNamespace(digest="c" * 32, settings=world.settings, pipeline=world.pipeline)
        self.settings, self.pipeline, self.wheel_digest = world.settings, world.pipeline, wheel
        self.runtime = {"spark": wheel[:3]}
        self.layout, self.store = world.layout, world.store  # type: ignore[assignment]
        self.metrics, self.stopping = Metrics(world.layout.pipeline), threading.Event()
        wishes: Any = SimpleNamespace(hold=lambda *_: control.Wish())
        self.read: list[Any] = []
        self.measured: list[bool] = []
        self.failures: list[Exception] = []
        first = {TOPIC: {"0": 0, "1": 0}}
        source: Any = SimpleNamespace(
            between=lambda _, ranges, __: ranges,
            first_offsets=lambda: first,
            topic_ids=lambda: world.topic_ids,
            same_topic=lambda *_: None,
            look=lambda _: None,
            within=lambda _: None,
        )
        self.job, self.source, self.control = job, source, wishes
        self.chain = HeldChain(self.layout, self.store)
        self.chain.owner = self._inner.held.head.owner
        self.chain.held, self.chain.live = self._inner.held, self._inner.live
        self.epoch_job = EpochJob(self.job, self.chain)
        self.epoch_job.attempt = self.attempt  # type: ignore[method-assign]
        declarations = Declarations(self.job, self.source, None, wheel_digest=wheel, runtime=self.runtime)
        declarations.tables = SimpleNamespace(find_tried=lambda: world.tried)  # type: ignore[assignment]
        self.publisher = Publisher(declarations, self.epoch_job, self.metrics, self.stopping)
        self.batches = Batches(self.publisher, self.control, self.stopping)

    def attempt(self, declaration: Declaration, frame: Any, *, measured: bool) -> Any:
        self.measured.append(measured)
        if self.failures:
            raise self.failures.pop()
        self.read.append(frame[TOPIC]["0"])
        self._inner.held = self.chain.held
        told: pa.Table = self._inner.attempt(declaration, *frame[TOPIC]["0"])
        summary, generation = Summary.of(told), self.head.generation
        summary.publish_files(self.pipeline, told, declaration, generation, self.of.manifests)
        return Outcome(summary.record(declaration, generation, self.pipeline, 2), summary.repeated, summary.letters)

    def recover(self) -> None:
        """What `start` does before its query."""
        if self.head.declared is not None:
            self.publisher.recover(self.head.declared, SPARK)
        self.publisher.repair(SPARK)


@pytest.fixture(autouse=True)
def _without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "judge_each", lambda _, read: read(None))


def test_a_driver_finishes_the_epoch_as_shown_then_reads_its_ranges_once_more() -> None:
    world = broken(2)
    world.repair()
    span = world.declared.ranges[TOPIC]["0"]
    started = MemoryDriver(world)
    started.recover()
    assert started.read == [span, span]
    assert (started.head.last_recorded, started.head.declared) == (HIT + 1, None)
    assert started.head == world.head
    started.recover()
    assert started.read == [span, span], "it is repaired once"
    assert_goes_on(world)


@pytest.mark.parametrize("declared", [False, True])
def test_a_driver_that_starts_between_the_two_goes_on_there(declared: bool) -> None:
    world = broken(2)
    world.repair()
    first = MemoryDriver(world)
    first.publisher.recover(world.declared, SPARK)
    if declared:
        inner = world.driver()
        due = due_of(inner.held.head)
        inner.held = run(chain.declare(world.layout, inner.held, due, None, 0), world.store)
    MemoryDriver(world).recover()
    assert_goes_on(world)


def test_another_version_than_the_one_that_finished_it_does_not_repair_it() -> None:
    """Which rows are of which shard must not change in between."""
    world = broken(2)
    world.repair()
    MemoryDriver(world).publisher.recover(world.declared, SPARK)
    before = world.head
    with pytest.raises(VersionError, match=f"epoch {HIT + 1} was declared by wheel {OLD[:12]}, this is wheel"):
        MemoryDriver(world, MENDED)
    assert world.head == before, "nobody was fenced"


def test_a_pipeline_is_not_drained_before_it_is_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    world = broken(2)
    world.repair()
    started = MemoryDriver(world)
    started.publisher.recover(world.declared, SPARK)
    drain = control.Wish.make(control.State.DRAINING, {"events": {"0": (0, 1)}})
    started.control = SimpleNamespace(wish=lambda *_: drain)  # type: ignore[assignment]
    monkeypatch.setattr(control, "is_drained", lambda *_: True)
    assert started.find_finished_drain() is None
    started.publisher.repair(SPARK)
    assert started.find_finished_drain() is drain


class AsksSparkError(Exception):
    """The driver begins to look for new input."""


def test_a_start_finishes_the_declared_epoch_before_it_looks_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of its pinned ranges (R3), whatever the input holds by now, and it is recorded (R1)."""
    world = broken(2, part=lambda _, rows: rows)
    span = world.declared.ranges[TOPIC]["0"]

    def look(*_: Any) -> None:
        raise AsksSparkError

    monkeypatch.setattr(rows, "check", lambda *_: None)
    monkeypatch.setattr(driver, "lineage_of", look)
    monkeypatch.setattr(InputWatch, "start", lambda *_: None)
    started = MemoryDriver(world)
    with pytest.raises(AsksSparkError):
        started.start(SPARK)
    assert started.read == [span]
    assert (world.head.last_recorded, world.head.declared) == (HIT, None)


def test_without_its_checkpoint_a_driver_goes_on_where_the_chain_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition that the topic got since begins at its start; the others not again."""
    world = broken(2, part=lambda _, rows: rows)
    started = MemoryDriver(world)
    started.recover()
    monkeypatch.setattr(Checkpoint, "fits", lambda *_: False)
    monkeypatch.setattr(Checkpoint, "folder", lambda _: "a folder")
    lineage = lineage_of(started.chain, started.source)
    assert lineage.starting == {TOPIC: {"0": world.head.tail[-1].ranges[TOPIC]["0"][1], "1": 0}}


def test_a_repeat_measures_the_batches_of_its_rows() -> None:
    """A batch of large records may be more than Spark can hand to Python, which nothing but bytes tells."""
    world = broken(2)
    world.repair()
    started = MemoryDriver(world)
    started.failures = [RuntimeError("OversizedAllocationException")]
    frame: Any = world.declared.ranges
    started.publisher.publish(world.declared, frame, repeat=False)
    assert started.measured == [False, True]
    again = MemoryDriver(world)
    again.recover()
    assert again.measured[0], "another driver may have failed for that reason"


def planning(world: World, within: Callable[[Ranges], object]) -> MemoryDriver:
    """Return a driver that is about to declare a batch of Spark; `within` is what its source says to ranges."""
    started = MemoryDriver(world)
    started.recover()
    started.source.within = within  # type: ignore[method-assign,assignment]
    return started


def declare(started: MemoryDriver, ranges: Ranges) -> Declaration:
    """Declare the epoch that a batch of Spark becomes."""
    new = started.publisher.declarations.of_batch(started.head, ranges, "000002-new", 0)
    return started.publisher.pin(new, started.head)


def test_ranges_beyond_what_is_committed_are_not_declared() -> None:
    """The driver asks its source of every batch (R3)."""

    def refuse(ranges: Ranges) -> None:
        raise SourceError(f"{ranges[TOPIC]['0']} is beyond the topic's end", TOPIC, "Send the records again.")

    started = planning(broken(2, part=lambda _, rows: rows), refuse)
    end = started.head.tail[-1].ranges[TOPIC]["0"][1]
    with pytest.raises(SourceError, match=rf"\({end}, {end + 5}\) is beyond"):
        declare(started, {TOPIC: {"0": (end, end + 5)}})
    assert started.of.head.declared is None


def test_of_a_batch_without_records_a_driver_publishes_what_head_states() -> None:
    """Nobody gave it up: it closes windows."""
    started = planning(broken(2, part=lambda _, rows: rows), lambda _: None)
    end = started.head.tail[-1].ranges[TOPIC]["0"][1]
    pinned = declare(started, {TOPIC: {"0": (end, end)}})
    assert (pinned.reads_nothing, pinned.is_abandoned) == (True, False)
    assert pinned == started.of.head.declared
