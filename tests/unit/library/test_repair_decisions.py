"""What was decided, recorded, refused or counted of an epoch that is repaired: what is shown stands."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest

from effectively_once import RecordedStep
from effectively_once.epoch import as_shown, refusals
from effectively_once.errors import SinkError
from effectively_once.ledger import chain, interventions
from effectively_once.ledger.objects import run
from effectively_once.pipeline.columns import DEAD_LETTER
from tests.unit.library.broken_epochs import (
    AFTER,
    EPOCHS,
    HIT,
    SIZE,
    assert_exact,
    assert_goes_on,
    begun,
    broken,
    die,
    records,
    truncating,
    unrecord,
)
from tests.unit.library.orders_world import ORDERS, World


@pytest.mark.parametrize("length", [0, 60])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.thinned(4)
def test_decisions_that_travel_inline_are_read_from_what_is_visible(seed: int, length: int) -> None:
    """There is no object of the decision then, only rows; or that of a repeat which was refused."""
    world = broken(seed, length=length, part=lambda shard, rows: rows.slice(2, 5) if shard == 0 else rows)
    assert not [key for key in world.store.objects if f"/ids/0000/{HIT:09d}" in key]
    with pytest.raises(SinkError):
        world.driver().start()
    if length:
        assert [key for key in world.store.objects if f"/ids/0000/{HIT:09d}" in key], "the refused repeat left one"
    world.repair()
    assert_goes_on(world)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.thinned(3)
def test_windows_decided_on_some_partials_are_decided_again(seed: int) -> None:
    """The second step got too little: nothing visible depends on its decision."""
    world = begun(records(seed))
    driver = world.driver()
    driver.partials = lambda shard, rows: rows if shard else rows.slice(0, rows.num_rows // 2)
    pinned = driver.declare()
    driver.attempt(pinned, *pinned.ranges["events"]["0"])
    with pytest.raises(SinkError, match=r"decided otherwise in step 'per_(user|id)', shard 0.*effectively-once repair"):
        world.driver().start()
    world.repair()
    assert_goes_on(world)


def test_windows_that_the_first_attempt_showed_stay_as_they_are() -> None:
    """It went through with truncated rows, up to the files, and died before it was recorded."""
    world = begun(records(5))
    driver = world.driver()
    driver.part = truncating(5, 0)
    driver.finish(driver.declare())
    unrecord(world)
    with pytest.raises(SinkError):
        world.driver().start()
    world.repair()
    assert_goes_on(world)


def test_a_recorded_step_answers_for_the_rows_that_were_shown_and_again_for_the_others() -> None:
    answers: Counter[int] = Counter()

    def price(rows: pa.Table) -> pa.Table:
        answers.update(rows["offset"].to_pylist())
        return pa.table({"price": rows["amount"]})

    step = RecordedStep("priced", price, pa.schema([("price", pa.int64())]))
    world = broken(4, pipeline=replace(ORDERS, recorded=step))
    before = Counter(answers)
    world.repair()
    world.driver().run(EPOCHS - HIT - 1)
    asked = Counter(answers)
    assert_exact(world)
    shown = set(as_shown.read(world.store, world.head.tail[HIT].shown["0"])["offset"].to_pylist())
    assert [asked[offset] for offset in shown] == [before[offset] for offset in shown], "they are not asked again"
    assert set(asked.values()) <= {1, 2}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.thinned(3)
def test_a_decision_that_nobody_saw_is_taken_again(seed: int) -> None:
    """No shard is finished as shown, and no epoch has to repair another."""
    world = broken(seed, after=None)
    with pytest.raises(SinkError, match="decided otherwise in step 'ids', shard 0"):
        world.driver().start()
    assert world.mending().look(world.declared) == []
    assert "ids are decided, which nobody sees" in world.told[0]
    world.repair()
    assert world.declared.shown == {}
    assert_goes_on(world)
    assert not [record for record in world.head.tail if record.shown]


def test_abandoning_an_epoch_takes_back_what_was_pinned_of_it() -> None:
    world = broken()
    world.repair()
    held = run(chain.take_over(world.layout, "operator", {}), world.store)
    abandoned = run(interventions.abandon(world.layout, held), world.store).head.declared
    assert abandoned is not None
    assert (abandoned.is_abandoned, abandoned.shown) == (True, {})


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
@pytest.mark.thinned(3)
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
