"""An epoch that nobody can repair: what its sinks show, or its input gives, does not fit, and that is named."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from effectively_once import Pipeline, ToFiles, ToTable
from effectively_once.epoch import as_shown
from effectively_once.errors import ChainError, ControlError, SinkError
from effectively_once.sinks.publish import Mark
from effectively_once.state import deltas
from tests.unit.library.broken_epochs import HIT, SIZE, assert_goes_on, begun, broken, driver_shard, records, unrecord
from tests.unit.library.orders_world import COLUMNS, OLD, World


def refused(world: World, match: str, kind: type[Exception] = SinkError) -> None:
    """Assert that the command is refused before and after it takes over, and changes nothing but the generation."""
    before, objects = world.head, set(world.store.objects)
    for carry_out in (False, True):
        with pytest.raises(kind, match=match):
            if carry_out:
                world.mending().carry_out(world.declared, OLD)
            else:
                world.mending().look(world.declared)
    assert (world.head.declared, world.head.tail) == (before.declared, before.tail)
    assert set(world.store.objects) == objects


def test_an_epoch_of_which_nothing_is_visible_or_decided_is_refused() -> None:
    world = begun(records(1))
    world.driver().declare()
    refused(world, rf"no shard shows or has decided on rows of epoch {HIT}.*effectively-once abandon", ControlError)


def test_sinks_that_show_different_rows_are_refused() -> None:
    world = broken()
    orders = world.sinks["orders", 0]
    orders.last = Mark(HIT, 1, 999, "1" * 32)
    shown = len(world.sinks["accepted", 0].log[HIT])
    refused(
        world,
        rf"something else is visible of epoch {HIT}: its sinks do not show the same rows "
        rf"\(shard 0: accepted shows {shown} rows \(topic .*\), .*orders shows 999 rows \(table t.orders\), .*"
        rf"Restore chain and sinks from one backup",
    )


@pytest.mark.parametrize(
    ("source", "how"),
    [
        (["events", 0, 0], "1 rows were read outside of its ranges"),
        (["other", 0, HIT * SIZE], "outside of its ranges"),
        (["events", 1, HIT * SIZE], "outside of its ranges"),
        (None, "1 rows are shown twice"),
    ],
)
def test_rows_that_are_not_of_the_epoch_are_refused(source: list[object] | None, how: str) -> None:
    world = broken()
    rows = list(world.sinks["accepted", 0].log[HIT])
    line = json.loads(rows[0][1])
    rows[0] = (None, json.dumps({**line, "source": source or json.loads(rows[1][1])["source"]}).encode())
    world.sinks["accepted", 0].log[HIT] = rows
    refused(world, f"something else is visible of epoch {HIT}: .*{how}")


def test_rows_that_do_not_say_which_they_are_are_refused() -> None:
    """A table of few rows: no object holds their ids."""
    pipeline = Pipeline(lambda frame: frame, COLUMNS, window_ms=100, lateness_ms=100, rows=(ToTable("orders"),))
    world = broken(after=("orders", 0), pipeline=pipeline, length=1, part=lambda _, rows: rows.slice(0, 5))
    told = r"nothing tells which rows of the input these are \(shard 0: orders shows \d rows \(table t.orders\)"
    refused(world, told)


def test_files_that_do_not_say_which_rows_they_show_are_refused() -> None:
    """They are visible for all shards at once, and no object holds the ids of a shard."""
    pipeline = Pipeline(lambda frame: frame, COLUMNS, window_ms=100, lateness_ms=100, rows=(ToFiles("archive"),))
    world = begun(records(1, length=1), pipeline)
    driver = world.driver()
    driver.part = lambda _, rows: rows.slice(0, 5)
    pinned = driver.declare()
    told = driver.attempt(pinned, *pinned.ranges["events"]["0"])
    assert driver.record(pinned, told)
    unrecord(world)
    refused(world, r"nothing tells which rows of the input these are \(shard 0: .*sink archive shows the epoch")


def test_visible_rows_that_the_input_does_not_give_stop_the_driver_before_that_shard_shows_more() -> None:
    """The command cannot read the input: the repeat finds it."""
    world = broken(after=("accepted", 0))
    world.repair()
    lost = as_shown.read(world.store, world.declared.shown["0"])["offset"][0].as_py()
    world.records[lost]["id"] = next(f"other {n}" for n in range(99) if moved(world, lost, f"other {n}") == 1)
    with pytest.raises(SinkError, match=rf"shard 0 shows 1 rows of epoch {HIT} that its input does not give.*backup"):
        world.driver().start()
    assert HIT not in world.sinks["orders", 0].log


def moved(world: World, offset: int, name: str) -> int:
    """Shard of a record under another id."""
    before, world.records[offset]["id"] = world.records[offset]["id"], name
    shard = driver_shard(world.driver(), offset)
    world.records[offset]["id"] = before
    return shard


def test_visible_rows_of_another_content_stop_the_driver() -> None:
    world = broken(after=("accepted", 0))
    world.repair()
    offset = as_shown.read(world.store, world.declared.shown["0"])["offset"][0].as_py()
    world.records[offset]["amount"] = 1234
    with pytest.raises(SinkError, match=f"^epoch {HIT} is published with digest .*accepted shard 0"):
        world.driver().start()


def test_rows_that_were_pinned_and_are_lost_or_changed_are_refused() -> None:
    world = broken()
    world.repair()
    key = world.declared.shown["0"].key
    assert key is not None
    body = world.store.objects[key]
    for damaged, how in ((None, "it is missing"), (body[:-40], ""), (b"{}", "")):
        told = rf"what a shard shows of an epoch cannot be read: {how}.*Run `effectively-once repair` again"
        world.store.objects.pop(key, None)
        if damaged is not None:
            world.store.objects[key] = damaged
        with pytest.raises(ChainError, match=told):
            world.driver().start()
    world.repair()
    assert_goes_on(world)


def test_rows_that_were_pinned_and_are_others_by_now_are_refused() -> None:
    """As many as were pinned, but not these."""
    world = broken()
    world.repair()
    shown = world.declared.shown["0"]
    assert shown.key is not None
    table = as_shown.read(world.store, shown)
    other = table.set_column(2, "offset", pa.array([offset + 1 for offset in table["offset"].to_pylist()]))
    world.store.objects[shown.key] = deltas.encode(other)
    with pytest.raises(ChainError, match=r"cannot be read: its rows are not those that were pinned"):
        world.driver().start()


def test_dead_letters_that_do_not_say_where_they_were_read_are_refused() -> None:
    world = broken()
    sink = world.sinks["dead_letter", 0]
    assert sink.log[HIT], "there are some"
    sink.log[HIT] = [(None, b"{}")]
    refused(world, "its dead letters do not tell where they were read")
