"""The driver's part of a divided epoch: its rest before anything new, by whoever goes on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from effectively_once.driver import control
from effectively_once.driver.lineage import Lineage
from effectively_once.epoch import rows
from effectively_once.ledger import chain, due_epoch, interventions
from effectively_once.ledger.declaration import SHARD_BYTES
from effectively_once.ledger.objects import run
from tests.unit.ledger.samples import due_of
from tests.unit.library.broken_epochs import SIZE, assert_exact
from tests.unit.library.orders_world import MENDED, TOPIC, World
from tests.unit.library.test_division import BYTES, divided, history
from tests.unit.library.test_repair_by_driver import MemoryDriver

BATCHES = 3


@pytest.fixture(autouse=True)
def _without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "judge_each", lambda _, read: read(None))


def batch(number: int) -> Any:
    return {TOPIC: {"0": (number * SIZE, (number + 1) * SIZE)}}


def reading(world: World) -> MemoryDriver:
    """Return a driver whose settings have the bound of the world, and that reads batches of Spark."""
    world.settings = world.settings.model_copy(update={"shard_bytes_max": BYTES})
    started = MemoryDriver(world)
    checkpoint: Any = SimpleNamespace(lineage="000001-abcd", ranges=lambda number, _: batch(number))
    started.batches.lineage = Lineage(checkpoint, {}, {})
    return started


def test_a_batch_is_published_in_parts_before_the_next_one_is_declared() -> None:
    world = divided()
    started = reading(world)
    for number in range(BATCHES):
        started.batches.batch(batch(number), number)
    started.chain.record()
    assert_exact(world, BATCHES)
    parts = [record.repairs is not None for record in history(world)]
    assert parts == [False, True, True] * BATCHES
    assert started.read == [batch(number)[TOPIC]["0"] for number in range(BATCHES) for _ in range(3)]
    assert started.measured == [False, True, True] * BATCHES, "large rows are in batches that are measured"
    assert {record.bytes_max for record in history(world)} == {BYTES}


def test_a_batch_that_spark_repeats_is_skipped_where_its_rest_is_taken() -> None:
    world = divided()
    started = reading(world)
    started.batches.batch(batch(0), 0)
    published = len(started.read)
    started.batches.batch(batch(0), 0)
    assert len(started.read) == published


def test_a_driver_that_stops_between_two_parts_leaves_the_rest_to_the_next_one() -> None:
    world = divided()
    first = reading(world)
    publish = first.publisher.publish

    def once(*given: Any, **how: Any) -> None:
        publish(*given, **how)
        first.stopping.set()

    first.publisher.publish = once  # type: ignore[method-assign]
    with pytest.raises(InterruptedError):
        first.batches.batch(batch(0), 0)
    first.chain.record()
    assert world.head.tail[-1].left
    second = reading(world)
    second.recover()
    for number in range(1, BATCHES):
        second.batches.batch(batch(number), number)
    second.chain.record()
    assert_exact(world, BATCHES)


def test_the_rest_is_declared_by_who_takes_it() -> None:
    """With its version, what that runs on, its bound, and the tables that it finds."""
    world = divided()
    first = reading(world)
    first.publisher.publish_rest = lambda frame: None  # type: ignore[method-assign]  # noqa: ARG005
    first.batches.batch(batch(0), 0)
    first.chain.record()
    world.settings = world.settings.model_copy(update={"shard_bytes_max": SHARD_BYTES})
    second = MemoryDriver(world, MENDED)
    second.recover()
    rest = history(world)[1:]
    assert [(record.wheel_digest, record.runtime, record.settings_digest, record.bytes_max) for record in rest] == [
        (MENDED, second.runtime, second.job.digest, None)
    ]
    assert second.runtime != first.runtime == history(world)[0].runtime


def test_a_rest_that_an_abandoned_epoch_leaves_once_more_is_owed() -> None:
    world = divided()
    first = reading(world)
    first.publisher.publish_rest = lambda frame: None  # type: ignore[method-assign]  # noqa: ARG005
    first.batches.batch(batch(0), 0)
    first.chain.record()
    due = due_of(first.head)
    held = run(chain.declare(world.layout, first.chain.held, due, None, 0), world.store)
    assert due_epoch.owes_rows(run(interventions.abandon(world.layout, held), world.store).head)


def test_a_pipeline_is_drained_when_the_rest_is_taken_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    world = divided()
    started = reading(world)
    drained: list[object] = []
    monkeypatch.setattr(
        control, "is_drained", lambda ranges, _: ranges == batch(0) or ranges[TOPIC]["0"] == (SIZE, SIZE)
    )
    drain = control.Wish.make(control.State.DRAINING, {TOPIC: {"0": (0, SIZE)}})
    started.control.wish = lambda *_: drain  # type: ignore[method-assign]
    monkeypatch.setattr(control, "reached_ranges", lambda _: {TOPIC: {"0": (0, 0)}})
    publish = started.publisher.publish

    def asked(*given: Any, **how: Any) -> None:
        publish(*given, **how)
        drained.append(started.find_finished_drain())

    started.publisher.publish = asked  # type: ignore[method-assign]
    started.batches.batch(batch(0), 0)
    assert drained == [None, None, drain]
