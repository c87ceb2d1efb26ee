"""The number of shards changes between two epochs: no id is forgotten, no total lost or doubled, whoever dies where."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from effectively_once import Count, Pipeline, Stateful, Sum, ToKafka, ToTable, Windowed
from effectively_once.driver import reshard
from effectively_once.epoch import shard_state
from effectively_once.errors import ChainError, SettingsError, SinkError, StaleDriverError, UnreachableError
from effectively_once.ledger import chain, segments
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.ledger.head import FORMAT, RESHARDED
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import run
from effectively_once.pipeline.job import Job
from effectively_once.pipeline.settings import refuse_changed
from effectively_once.sinks.publish import Mark
from tests.harness.checkers.xxhash64 import shard_of
from tests.settings import pipeline_settings
from tests.unit.ledger.samples import due_of
from tests.unit.library.broken_epochs import EPOCHS, SIZE, assert_exact, die, mend, records
from tests.unit.library.orders_world import COLUMNS, Killed, World

BEFORE = Path(__file__).with_name("before_resharding.json")
OLD_PIPELINE = Pipeline(
    lambda frame: frame,
    COLUMNS,
    window_ms=100,
    lateness_ms=100,
    windows=(
        Windowed("user", {"n": Count(), "sum": Sum("amount")}, ToTable("per_user")),
        Windowed("id", {"n": Count()}, ToKafka("per_id")),
    ),
    rows=(ToKafka("accepted", key="user"), ToTable("orders")),
)
LENGTHS = pytest.mark.parametrize("length", [8, 160], ids=["inline", "objects"])
DEEP = pytest.mark.deep
CHANGES = pytest.mark.parametrize(
    ("before", "now"), [(2, 5), (3, 1), pytest.param(5, 2, marks=DEEP), pytest.param(1, 3, marks=DEEP)]
)


def world_of(shards: int, seed: int = 1, length: int = 160) -> World:
    """Return a pipeline that deals rows to shards as Spark does."""
    shard_state._fold_cache.cache_clear()
    world = World(records(seed, length=length), SIZE)
    world.home = shard_of
    world.reshard(shards)
    return world


def history(world: World) -> list[EpochRecord]:
    return run(segments.history(world.layout, world.head), world.store)


def numbers(world: World) -> list[int]:
    return [record.shards for record in history(world)]


@CHANGES
@LENGTHS
@pytest.mark.thinned(4)
def test_sinks_show_what_they_show_without_a_change(before: int, now: int, length: int) -> None:
    """Copies of what other shards accepted are duplicates, and windows close with what other shards counted."""
    for seed in range(3):
        world = world_of(before, seed, length)
        world.driver().run(3)
        world.reshard(now)
        world.driver().run(EPOCHS - 3)
        assert_exact(world)
        assert numbers(world) == [before] * 3 + [now] * (EPOCHS - 3)


def test_it_may_change_again_and_back_and_workers_stay() -> None:
    """A shard that comes back has the marks and the state of epochs that it was not there for."""
    world = world_of(3)
    for shards in (3, 1, 4, 3, 2, 3):
        world.reshard(shards)
        world.driver().run(1)
    assert_exact(world)
    assert numbers(world) == [3, 1, 4, 3, 2, 3]


DIED = [None, ("accepted", 0), ("dead_letter", 1), ("orders", 1), ("per_user", 0), ("per_id", 1)]


@CHANGES
@pytest.mark.parametrize("after", DIED)
@pytest.mark.thinned(4)
def test_what_is_declared_is_repeated_with_its_own_number(before: int, now: int, after: tuple[str, int] | None) -> None:
    """A driver of the former number died in an epoch; the next one finishes it, then goes on with the new number."""
    world = world_of(max(before, 2))
    world.driver().run(2)
    die(world.driver(), after)
    world.reshard(now)
    world.driver().run(EPOCHS - 3)
    assert_exact(world)
    assert numbers(world) == [max(before, 2)] * 3 + [now] * (EPOCHS - 3)


@CHANGES
@pytest.mark.parametrize("after", DIED)
@pytest.mark.thinned(4)
def test_the_first_epoch_of_the_new_number_is_repeated_with_it(
    before: int, now: int, after: tuple[str, int] | None
) -> None:
    """Also by a driver whose settings have the former number again, which then goes back to it."""
    world = world_of(before)
    world.driver().run(2)
    world.reshard(max(now, 2))
    dead = world.driver()
    dead.start()
    die(dead, after)
    world.reshard(before)
    world.driver().run(EPOCHS - 3)
    assert_exact(world)
    assert numbers(world) == [before] * 2 + [max(now, 2)] + [before] * (EPOCHS - 3)


@pytest.mark.parametrize("name", ["accepted", "orders", "per_id"])
@pytest.mark.parametrize("goes_on_with", [2, 4])
@pytest.mark.thinned(3)
def test_marks_of_new_shards_are_given_again_where_a_driver_died_giving_them(name: str, goes_on_with: int) -> None:
    world = world_of(2)
    world.driver().run(2)
    world.reshard(4)

    def dies(_: int) -> None:
        raise Killed

    world.sinks[name, 3].before = dies
    with pytest.raises(Killed):
        world.driver().start()
    mend(world)
    assert world.sinks[name, 2].last == Mark(1, 2, 0, "0" * 32)
    world.reshard(goes_on_with)
    world.driver().run(2)
    world.reshard(4)
    world.driver().run(EPOCHS - 4)
    assert_exact(world)


def test_a_driver_that_slept_while_it_gave_marks_takes_none_back() -> None:
    world = world_of(2)
    world.driver().run(2)
    world.reshard(3)
    slept = world.driver()
    world.driver().run(EPOCHS - 2)
    marks = {place: sink.last for place, sink in world.sinks.items()}
    with pytest.raises(SinkError, match="progress mark 5 lies outside the chain's 1 to 1"):
        slept.start()
    assert {place: sink.last for place, sink in world.sinks.items()} == marks
    assert_exact(world)


def test_a_driver_of_the_former_number_that_slept_only_completes_what_is_declared() -> None:
    world = world_of(2)
    world.driver().run(2)
    slept = world.driver()
    pinned = slept.declare()
    told = slept.attempt(pinned, *pinned.ranges[world.topic]["0"])
    world.reshard(5)
    world.driver().run(EPOCHS - 3)
    with pytest.raises(Exception, match="was replaced"):
        slept.record(pinned, told)
    slept.attempt(pinned, *pinned.ranges[world.topic]["0"])
    assert_exact(world)


@pytest.mark.parametrize("now", [1, 3])
@pytest.mark.thinned(2)
def test_the_rest_of_a_divided_epoch_is_taken_by_the_shards_that_left_it(now: int) -> None:
    world = world_of(2)
    world.bytes_max = 1_500
    world.driver().run(2)
    dead = world.driver()
    dead.finish(dead.declare())
    left = len(history(world))
    assert history(world)[-1].left
    world.reshard(now)
    world.driver().run(EPOCHS - 3)
    assert_exact(world)
    rest = [record for record in history(world)[left:] if record.repairs is not None]
    assert rest[0].shards == 2
    assert history(world)[-1].shards == now


def test_the_rest_of_a_divided_epoch_is_declared_with_its_number_only() -> None:
    world = world_of(2)
    world.bytes_max = 1_500
    driver = world.driver()
    driver.finish(driver.declare())
    due = due_of(driver.held.head)
    other = due.model_copy(update={"shards": 3})
    with pytest.raises(ChainError, match="cannot be declared with 3 shards, epoch 0 left rows of 2"):
        run(chain.declare(world.layout, driver.held, other, None, 0), world.store)


def test_a_mark_beyond_the_chain_is_refused_before_anything_is_declared() -> None:
    world = world_of(2)
    world.driver().run(2)
    world.reshard(3)
    world.sinks["orders", 2].last = Mark(9, 1, 0, "")
    with pytest.raises(SinkError, match="progress mark 9 lies outside the chain's 1 to 1"):
        world.driver().start()
    assert world.head.declared is None


@DEEP
def test_deltas_of_many_epochs_are_merged_within_each_number_and_read_by_all() -> None:
    """Groups are of one number of shards; those of the former one stay until the floor takes them."""
    world = World([{"id": f"{n // 2}", "event_time_ms": 0} for n in range(2 * 300)], 2)
    world.home = shard_of
    shard_state._fold_cache.cache_clear()
    world.driver().run(70)
    world.reshard(3)
    world.driver().run(130)
    world.reshard(2)
    shard_state._fold_cache.cache_clear()
    world.driver().run(100)
    merged = {(at.shards, span.first) for at in history(world) for span in at.merged.get("ids", {}).values()}
    assert merged == {(2, 0), (3, 128)}
    assert world.counts()["accepted"] == 300
    assert world.counts()["duplicate"] == 300


PLAIN = Pipeline(lambda frame: frame, COLUMNS, rows=(ToKafka("accepted"),))
SUMS = Stateful(lambda rows: rows, COLUMNS, "user", ToKafka("sums"))
STATEFUL = Pipeline(lambda frame: frame, COLUMNS, stateful=SUMS)


def test_another_number_is_no_other_state_unless_the_state_is_sparks_own() -> None:
    """Every other thing that state depends on is refused as ever."""
    job = Job(PLAIN, pipeline_settings())
    refuse_changed(job.bound, reshard.bound_of(job.of_shards(5)), "head")
    longer = replace(job, settings=job.settings.model_copy(update={"window_ms": 7}))
    with pytest.raises(SettingsError, match="window_ms was 60000"):
        refuse_changed(job.bound, reshard.bound_of(longer), "head")
    stateful = Job(STATEFUL, pipeline_settings())
    with pytest.raises(SettingsError, match="shards was 2 when this pipeline began and is 5 now"):
        refuse_changed(stateful.bound, reshard.bound_of(stateful.of_shards(5)), "head")


def test_a_compacted_topic_of_rows_keeps_the_number() -> None:
    """The last row of a key that moves would stay where it was, for ever."""
    head, job = world_of(2), Job(PLAIN, pipeline_settings())
    head.driver().run(1)
    assert not reshard.is_due(head.head, job)
    assert reshard.is_due(head.head, job.of_shards(3))
    reshard.refuse_compacted({"p.accepted": "delete"}, head.head, job.of_shards(3))
    with pytest.raises(SettingsError, match=r"shards was 2 and is 3 now.*compact.*topic p\.accepted.*back to 2"):
        reshard.refuse_compacted({"p.other": "delete", "p.accepted": "compact,delete"}, head.head, job.of_shards(3))


def test_somebody_who_keeps_opening_producers_is_told_and_a_driver_that_was_replaced_says_so() -> None:
    world = world_of(2)
    world.driver().run(1)
    world.reshard(3)
    shard = world.sinks["accepted", 2]

    def fence(_: int) -> None:
        shard.owner = None

    shard.open = fence
    with pytest.raises(UnreachableError, match=r"somebody else keeps opening producers .sink accepted shard 2"):
        world.driver().start()

    def replaced() -> None:
        raise StaleDriverError("was replaced", "head", "Nothing.")

    with pytest.raises(StaleDriverError):
        reshard.begin_shards(world.head, 3, world.open_shards, replaced)
    mend(world)
    world.driver().run(EPOCHS - 1)
    assert_exact(world)


@pytest.mark.parametrize("now", [1, 2, 5])
@pytest.mark.thinned(2)
def test_a_chain_that_the_commit_before_wrote_goes_on(now: int) -> None:
    """What it wrote of two shards is in `before_resharding.json`: head, with deltas of three epochs in it."""
    written = json.loads(BEFORE.read_text())
    shard_state._fold_cache.cache_clear()
    goes_on, control = (World(records(1, 60, 8), 10, OLD_PIPELINE) for _ in range(2))
    control.home = goes_on.home = shard_of
    control.driver().run(6)
    (body,) = written["objects"].values()
    goes_on.layout = Layout(written["name"])
    goes_on.settings = goes_on.settings.model_copy(update={"pipeline": written["name"]})
    goes_on.store.objects = {goes_on.layout.head: body.encode()}
    for sink in goes_on.sinks.values():
        sink.last = Mark(2, 1, 0, "")
    goes_on.reshard(now)
    goes_on.driver().run(3)
    assert json.loads(goes_on.store.objects[goes_on.layout.head])["format"] == (FORMAT if now == 2 else RESHARDED)
    for sink in control.sinks.values():
        sink.log = {epoch: rows for epoch, rows in sink.log.items() if epoch > 2}
    assert goes_on.visible() == control.visible()


def test_head_says_the_number_with_the_declaration_that_changes_it_and_keeps_older_versions_out() -> None:
    """Of a chain whose number never changed they read on."""
    world = world_of(2)
    world.driver().run(1)
    world.reshard(3)
    driver = world.driver()
    driver.start()
    assert (world.head.format, world.head.settings["shards"], world.head.shards) == (FORMAT, 2, 2)
    driver.declare()
    assert (world.head.format, world.head.settings["shards"], world.head.shards) == (RESHARDED, 3, 3)
    assert RESHARDED > FORMAT, "of which older versions read none that is larger"
    world.reshard(2)
    world.driver().run(1)
    assert (world.head.format, world.head.settings["shards"], world.head.shards) == (RESHARDED, 2, 2)
