"""What goes on while an epoch is repaired, at any request of the command: it ends, or a driver works.

The two-driver model found the orders of events.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa
import pytest

from effectively_once import Pipeline, RecordedStep, ToFiles, ToKafka
from effectively_once.epoch import shard_state
from effectively_once.errors import ControlError, SinkError, StaleDriverError
from effectively_once.ledger.objects import Answer, Request
from tests.unit.library.broken_epochs import HIT, assert_exact, broken, kill, mend, truncating
from tests.unit.library.orders_world import COLUMNS, OLD, ORDERS, Killed, World

PRICE = pa.schema([("price", pa.int64())])
PRICED = replace(ORDERS, recorded=RecordedStep("priced", lambda rows: pa.table({"price": rows["amount"]}), PRICE))


def numbered() -> RecordedStep:
    """Return a step that answers otherwise each time."""
    prices = itertools.count()
    return RecordedStep(
        "priced", lambda rows: pa.table({"price": [next(prices) for _ in range(rows.num_rows)]}, PRICE), PRICE
    )


class BrokenOffError(Exception):
    """The command was killed."""


def finish(world: World) -> None:
    """Run a driver to the end of the input, in other processes than those of before: state is read from the chain."""
    shard_state._fold_cache.cache_clear()
    driver = world.driver()
    driver.start()
    while driver.held.head.tail[-1].ranges[world.topic]["0"][1] < len(world.records):
        driver.finish(driver.declare())


def at_request(world: World, number: int, happens: Callable[[], object]) -> None:
    """Let something happen before a request of whoever asks the store next, which may ask it in threads of its own."""
    requests, answer = itertools.count(), world.store.answer

    def count(request: Request) -> Answer:
        if next(requests) == number:
            happens()
        return answer(request)

    world.store.answer = count  # type: ignore[method-assign]


def mend_store(world: World) -> None:
    vars(world.store).pop("answer", None)


@pytest.mark.parametrize("number", range(14))
@pytest.mark.thinned(5)
def test_a_driver_that_finishes_the_epoch_while_the_command_sleeps_loses_nothing(number: int) -> None:
    """The epoch could be finished, and is: what the command does when it wakes is in nobody's way."""
    world = broken(4, after=None, pipeline=PRICED, part=lambda _, rows: rows)
    pinned = world.declared
    at_request(world, number, lambda: world.driver().start())
    with suppress(StaleDriverError):
        world.mending().carry_out(pinned, OLD)
    mend_store(world)
    finish(world)
    assert_exact(world)


@pytest.mark.parametrize("number", range(14))
@pytest.mark.parametrize("after", [None, ("orders", 1)])
@pytest.mark.thinned(6)
def test_a_command_that_is_killed_anywhere_is_run_again(number: int, after: tuple[str, int] | None) -> None:
    """Or has nothing left to do."""
    world = broken(4, after=after, shards=(0, 1), pipeline=PRICED)

    def die() -> None:
        raise BrokenOffError

    at_request(world, number, die)
    with suppress(BrokenOffError):
        world.mending().carry_out(world.declared, OLD)
    mend_store(world)
    with suppress(ControlError):
        world.repair()
    finish(world)
    assert_exact(world)


def test_what_was_recorded_of_a_part_is_recorded_anew_where_nothing_else_is_decided() -> None:
    """Records without ids have no decision; of it nothing is visible either."""
    pipeline = Pipeline(
        lambda frame: frame, COLUMNS, ids="coordinates", rows=(ToKafka("accepted"),), recorded=PRICED.recorded
    )
    world = broken(after=None, pipeline=pipeline)
    with pytest.raises(SinkError, match="brought other rows to recorded step 'priced'"):
        world.driver().start()
    world.repair()
    finish(world)
    assert_exact(world)


def test_what_was_recorded_goes_on_to_count_for_rows_that_became_visible_after_the_command_looked() -> None:
    """A driver of before publishes with its own record, which a later one has not got."""
    world = broken(4, after=None, pipeline=replace(ORDERS, windows=(), recorded=numbered()))
    sleeping = world.driver()
    sleeping.part = truncating(4, 0)
    pinned = world.declared
    world.repair()
    kill(world, ("accepted", 0))
    with pytest.raises(Killed):
        sleeping.attempt(pinned, *pinned.ranges[world.topic]["0"])
    mend(world)
    with pytest.raises(SinkError, match=f"^epoch {HIT} is published with digest .*accepted shard 0"):
        world.driver().start()
    world.repair()
    finish(world)
    rows = world.rows()
    told = {name: Counter((row["id"], row["price"]) for row in rows[name]) for name in ("accepted", "orders")}
    assert told["accepted"] == told["orders"]
    assert max(Counter(identity for identity, _ in told["accepted"]).values()) == 1


def test_files_that_became_visible_after_the_command_looked_tell_by_whom() -> None:
    """Their rows do not say where they were read: the decision does that they were published with."""
    pipeline = replace(ORDERS, windows=(), rows=(ToFiles("archive"),), recorded=numbered())
    world = broken(4, after=None, pipeline=pipeline, part=lambda _, rows: rows)
    sleeping, pinned = world.driver(), world.declared
    world.repair()
    with pytest.raises(StaleDriverError):
        sleeping.finish(pinned)
    with pytest.raises(SinkError, match=f"^epoch {HIT} is published with digest .*archive"):
        world.driver().start()
    world.repair()
    finish(world)
    assert max(Counter(row["id"] for row in world.rows()["archive"]).values()) == 1
