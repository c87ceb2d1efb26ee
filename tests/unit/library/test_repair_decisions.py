"""What was decided, recorded or counted of an epoch that is repaired: what is shown stands."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from effectively_once import Pipeline, RecordedStep
from effectively_once.epoch import as_shown
from effectively_once.errors import SinkError
from effectively_once.ledger import chain, interventions
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.head import Head, decode
from effectively_once.ledger.objects import run
from tests.thinned import thinned
from tests.unit.library.broken_epochs import (
    EPOCHS,
    HIT,
    assert_exact,
    assert_goes_on,
    begun,
    broken,
    records,
    truncating,
)
from tests.unit.library.orders_world import COLUMNS, ORDERS, WINDOWS


@pytest.mark.parametrize("length", [0, 60])
@pytest.mark.parametrize("seed", thinned(range(4), 4))
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


@pytest.mark.parametrize("seed", thinned(range(3)))
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
    body = world.store.objects[world.layout.head]
    head = decode(body, "")
    lost = head.model_copy(update={"tail": head.tail[:-1], "last_recorded": HIT - 1, "declared": head_declared(head)})
    world.store.objects[world.layout.head] = lost.encode()
    with pytest.raises(SinkError):
        world.driver().start()
    world.repair()
    assert_goes_on(world)


def head_declared(head: Head) -> Declaration:
    last = head.tail[-1]
    return Declaration(**{name: getattr(last, name) for name in Declaration.model_fields})


def test_a_recorded_step_answers_for_the_rows_that_were_shown_and_again_for_the_others() -> None:
    answers: Counter[int] = Counter()

    def price(rows: pa.Table) -> pa.Table:
        answers.update(rows["offset"].to_pylist())
        return pa.table({"price": rows["amount"]})

    pipeline = Pipeline(
        lambda frame: frame,
        COLUMNS,
        window_ms=100,
        lateness_ms=100,
        windows=WINDOWS,
        recorded=RecordedStep("priced", price, pa.schema([("price", pa.int64())])),
        rows=ORDERS.rows,
    )
    world = broken(4, pipeline=pipeline)
    before = Counter(answers)
    world.repair()
    world.driver().run(EPOCHS - HIT - 1)
    asked = Counter(answers)
    assert_exact(world)
    shown = set(as_shown.read(world.store, world.head.tail[HIT].shown["0"])["offset"].to_pylist())
    assert [asked[offset] for offset in shown] == [before[offset] for offset in shown], "they are not asked again"
    assert set(asked.values()) <= {1, 2}


@pytest.mark.parametrize("seed", thinned(range(3)))
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
