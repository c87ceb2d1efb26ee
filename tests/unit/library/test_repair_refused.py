"""A repair of an epoch of which a table has refused rows: it goes on with what was recorded."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from effectively_once.epoch import refusals
from effectively_once.pipeline.columns import DEAD_LETTER
from tests.unit.library.broken_epochs import AFTER, EPOCHS, HIT, SIZE, die, records, truncating
from tests.unit.library.orders_world import ORDERS, World

REASON = "refused_by_table orders: odd"


def odd(rows: pa.Table) -> dict[int, str]:
    return {number: "odd" for number, amount in enumerate(rows["amount"].to_pylist()) if amount % 2}


def refused(world: World) -> set[tuple[str, int]]:
    """Id and epoch of every dead letter that a table is the reason of."""
    letters = [row for (name, _), sink in world.sinks.items() if name == DEAD_LETTER for row in sink.all()]
    return {(row["id"], row["epoch"]) for row in letters if row["reason"] == REASON}


def done(after: tuple[str, int]) -> list[tuple[str, int]]:
    return AFTER[: AFTER.index(after)]


@pytest.mark.parametrize("after", AFTER)
def test_what_a_table_refused_of_an_epoch_stays_refused_though_its_constraint_goes(after: tuple[str, int]) -> None:
    """Each id is accepted or a dead letter, never both; every sink of accepted rows shows the same."""
    world = World(records(1), SIZE, replace(ORDERS, rows=ORDERS.rows[:2]))
    world.tried = ("orders",)
    for shard in (0, 1):
        world.sinks["orders", shard].constraint = odd
    world.driver().run(HIT)
    driver = world.driver()
    driver.part = truncating(1, 0)
    die(driver, after)
    assert world.layout.step_record(refusals.STEP, HIT, 0) in world.store.objects
    visible = refused(world)
    assert any(epoch == HIT for _, epoch in visible) == ((DEAD_LETTER, 0) in (after, *done(after)))
    for shard in (0, 1):
        world.sinks["orders", shard].constraint = lambda _: {}
    world.repair()
    world.driver().run(EPOCHS - HIT - 1)
    shown = world.rows()
    accepted = [row["id"] for row in shown["accepted"]]
    assert sorted(row["id"] for row in shown["orders"]) == sorted(accepted)
    assert len(set(accepted)) == len(accepted)
    assert visible <= refused(world), "what was visible stays, and no other row was refused in its place"
    assert not {id_ for id_, epoch in visible if epoch == HIT} & {
        row["id"] for row in shown["accepted"] if row["epoch"] == HIT
    }
    counts = world.counts()
    assert counts["in"] == counts["accepted"] + counts["duplicate"] + counts["late"] + counts["malformed"]
    assert counts["late"] + counts["malformed"] == len(shown[DEAD_LETTER])
