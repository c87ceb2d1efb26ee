"""An epoch of which a shard has shown too little, in memory, and what a run that nothing broke shows."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable

import pyarrow as pa
import pytest

from effectively_once import Pipeline, ToFiles
from effectively_once.epoch import shard_state
from effectively_once.ledger.declaration import Declaration
from effectively_once.pipeline.columns import DEAD_LETTER
from tests.unit.library.orders_world import OLD, ORDERS, Killed, Record, World, WorldDriver

SIZE, HIT, EPOCHS = 40, 3, 6
"""Rows of an epoch, the one that is truncated, and how many the input has: windows of the third close in the fifth."""


def records(seed: int, number: int = EPOCHS * SIZE, length: int = 160) -> list[Record]:
    """Return records of which some are sent twice, late or malformed; `length` of ids decides on inline deltas."""
    drawn = random.Random(seed)
    found: list[Record] = []
    for offset in range(number):
        chance = drawn.random()
        if found and chance < 0.2:
            found.append(dict(drawn.choice(found[-2 * SIZE :])))
        else:
            time_ms = max(0, offset * 10 - (drawn.randrange(900) if chance > 0.9 else drawn.randrange(30)))
            found.append({"id": f"{offset:0{length}}", "event_time_ms": time_ms})
            if chance > 0.85:
                found[-1]["reason"] = drawn.choice([None, "not_json"])
    return found


def truncating(seed: int, *shards: int) -> Callable[[int, pa.Table], pa.Table]:
    """Give some shards only a part of their rows, which need not be the first ones."""
    drawn = random.Random(seed)

    def part(shard: int, rows: pa.Table) -> pa.Table:
        if shard not in shards:
            return rows
        kept = sorted(drawn.sample(range(rows.num_rows), rows.num_rows * 2 // 5))
        return rows.take(pa.array(kept, pa.int64()))

    return part


def broken(
    seed: int = 1,
    *,
    after: tuple[str, int] | None = ("dead_letter", 0),
    shards: tuple[int, ...] = (0,),
    pipeline: Pipeline = ORDERS,
    length: int = 160,
    part: Callable[[int, pa.Table], pa.Table] | None = None,
) -> World:
    """Run to an epoch of which some shards get a part; its driver dies once `after`, a shard of a sink, is published.

    None: after the decision of shard 0.
    """
    world = begun(records(seed, length=length), pipeline)
    driver = world.driver()
    driver.part = part or truncating(seed, *shards)
    die(driver, after)
    return world


BEGUN: dict[str, World] = {}


def begun(input_: list[Record], pipeline: Pipeline = ORDERS, epochs: int = HIT) -> World:
    """Return a pipeline that has published so many epochs; once for each input. No worker knows what it did."""
    which = f"{epochs} {json.dumps(input_, default=str)} {pipeline!r}"
    if which not in BEGUN:
        BEGUN[which] = World(input_, SIZE, pipeline)
        BEGUN[which].driver().run(epochs)
    shard_state._fold_cache.cache_clear()
    return BEGUN[which].copy(input_)


def die(driver: WorldDriver, after: tuple[str, int] | None) -> None:
    """Declare an epoch, and die in it once `after` is published; sinks work again then."""
    kill(driver.of, after)
    with pytest.raises(Killed):
        driver.finish(driver.declare())
    mend(driver.of)


def kill(world: World, after: tuple[str, int] | None) -> None:
    """Let whoever publishes die when it comes to the sink after one."""
    order = [(name, shard) for shard in (0, 1) for name in first(world.pipeline)]
    order += [place for place in world.sinks if place not in order]
    # Of windows: by sink, each step publishes all of them.
    place = order[order.index(after) + 1 if after else 0]

    def die(_: int) -> None:
        raise Killed

    world.sinks[place].before = die


def first(pipeline: Pipeline) -> list[str]:
    return [*(to.name for to in pipeline.rows if not isinstance(to, ToFiles)), DEAD_LETTER]


def mend(world: World) -> None:
    for sink in world.sinks.values():
        sink.before = sink.open = lambda _: None


CONTROLS: dict[str, tuple[dict[str, Counter[str]], Counter[str]]] = {}


def untruncated(world: World, epochs: int) -> tuple[dict[str, Counter[str]], Counter[str]]:
    """Return what another pipeline of the same input shows and counts that was never hit; once for each input."""
    which = f"{epochs} {world.topic} {json.dumps(world.records, default=str)} {world.pipeline!r}"
    if which not in CONTROLS:
        control = World(world.records, world.size, world.pipeline, world.topic)
        control.driver().run(epochs)
        CONTROLS[which] = control.visible(), control.counts()
    return CONTROLS[which]


def assert_exact(world: World, epochs: int = EPOCHS) -> None:
    """Assert that every sink shows what an untruncated run shows, windows included, and the counts add up."""
    due, numbers = untruncated(world, epochs)
    shown, counts = world.visible(), world.counts()
    for name, rows in due.items():
        assert shown[name] == rows, name
    assert counts == numbers
    assert counts["in"] == counts["accepted"] + counts["duplicate"] + counts["late"] + counts["malformed"]


def assert_goes_on(world: World, wheel: str = OLD, epochs: int = EPOCHS - HIT - 1) -> None:
    """Assert that a driver which starts now comes to the end of the input, and that all is exact then."""
    world.driver(wheel).run(epochs)
    assert_exact(world)


def unrecord(world: World) -> None:
    """Let the last epoch be declared, as if its driver had died before it recorded it."""
    head = world.head
    declared = Declaration(**{name: getattr(head.tail[-1], name) for name in Declaration.model_fields})
    changes = {"tail": head.tail[:-1], "last_recorded": head.last_recorded - 1, "declared": declared}
    world.store.objects[world.layout.head] = head.model_copy(update=changes).encode()


AFTER = [("accepted", 0), ("orders", 0), ("dead_letter", 0), ("orders", 1), ("dead_letter", 1)]


def driver_shard(driver: WorldDriver, offset: int) -> int:
    found: int = driver.judged(driver.held.head.tail[-1], offset, offset + 1)["shard"][0].as_py()
    return found
