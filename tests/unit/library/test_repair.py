"""An epoch of which a shard has shown too little: finished as shown, and repaired by the next one."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from effectively_once import Pipeline, ToKafka, ToTable
from effectively_once.epoch import as_shown
from effectively_once.errors import ChainError, SinkError, StaleDriverError, VersionError
from effectively_once.ledger import chain, due_epoch, interventions
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.head import Head
from effectively_once.ledger.objects import run
from effectively_once.sinks.publish import FencedError
from tests.unit.ledger.samples import due_of
from tests.unit.library.broken_epochs import (
    AFTER,
    EPOCHS,
    HIT,
    SIZE,
    assert_goes_on,
    broken,
    die,
    driver_shard,
    kill,
    mend,
    records,
    truncating,
)
from tests.unit.library.orders_world import COLUMNS, MENDED, OLD, ORDERS, WINDOWS, Killed, World


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("shards", [(0,), (0, 1)])
@pytest.mark.thinned(9)
def test_what_an_epoch_lacks_the_next_one_shows_and_both_come_to_an_untruncated_run(
    seed: int, after: tuple[str, int], shards: tuple[int, ...]
) -> None:
    """Wherever its driver died, and whichever rows were missing; windows close with every row."""
    world = broken(seed, after=after, shards=shards)
    with pytest.raises(SinkError):
        world.driver().start()
    world.repair()
    assert_goes_on(world)
    finished, repairing = world.head.tail[HIT : HIT + 2]
    assert (finished.repairs, repairing.repairs) == (None, HIT)
    assert set(finished.shown) == ({"0", "1"} if after[1] else {"0"})
    assert finished.shown == repairing.shown
    assert repairing.counts.accepted > 0
    assert (repairing.watermark_ms, repairing.previous_watermark_ms) == (finished.watermark_ms, finished.watermark_ms)
    assert repairing.empty
    assert not repairing.is_abandoned


def test_a_shard_that_got_no_row_at_all_is_repaired() -> None:
    world = broken(part=lambda shard, rows: rows.slice(0, 0) if shard == 0 else rows)
    world.repair()
    assert world.declared.shown["0"].key is None
    assert_goes_on(world)


def test_without_ids_attached_every_row_is_still_taken_once() -> None:
    pipeline = Pipeline(lambda frame: frame, COLUMNS, ids="coordinates", rows=(ToKafka("accepted"), ToTable("orders")))
    world = broken(pipeline=pipeline)
    with pytest.raises(SinkError, match=f"^epoch {HIT} is published with digest"):
        world.driver().start()
    world.repair()
    assert_goes_on(world)


def test_with_tables_alone_the_ids_that_were_decided_tell_the_rows() -> None:
    """As long as the copy that was lost is not the one that would have won."""
    pipeline = replace(ORDERS, windows=WINDOWS[:1], rows=(ToTable("orders"),))
    world = broken(after=("orders", 0), pipeline=pipeline, part=lambda _, rows: rows.slice(0, rows.num_rows // 2))
    world.repair()
    assert world.declared.shown["0"].ids is not None
    assert_goes_on(world)


def test_a_copy_that_a_table_shows_and_its_ids_do_not_tell_is_refused() -> None:
    """The first copy was lost, and the second is visible: finishing with the first would show something else."""
    pipeline = replace(ORDERS, windows=(), rows=(ToTable("orders"),))

    def second_copies(shard: int, rows: pa.Table) -> pa.Table:
        return rows if shard else rows.slice(1)

    sent = [{"id": f"{n:0160}", "event_time_ms": n * 10} for n in range(4 * SIZE)]
    world = World(sent, SIZE, pipeline)
    world.driver().run(HIT)
    driver = world.driver()
    lost = next(n for n in range(HIT * SIZE, 4 * SIZE) if driver_shard(driver, n) == 0)
    world.records[lost + 5] = dict(world.records[lost])
    driver.part = second_copies
    die(driver, ("orders", 0))
    world.repair()
    with pytest.raises(SinkError, match=f"^epoch {HIT} is published with digest"):
        world.driver().start()


@pytest.mark.parametrize("epoch", [0, 1])
def test_the_first_epochs_can_be_repaired(epoch: int) -> None:
    """There is no watermark yet."""
    world = World(records(2), SIZE)
    world.driver().run(epoch)
    driver = world.driver()
    driver.part = truncating(2, 0)
    die(driver, ("dead_letter", 0))
    world.repair()
    assert world.head.tail[epoch:] == ()
    assert_goes_on(world, epochs=EPOCHS - epoch - 1)


def test_an_epoch_that_was_whole_is_repaired_by_one_that_accepts_nothing() -> None:
    """The command cannot tell: only duplicates are left of it."""
    world = broken(part=lambda _, rows: rows)
    world.repair()
    assert_goes_on(world)
    left = world.head.tail[HIT + 1].counts
    assert (left.accepted, left.late, left.malformed) == (0, 0, 0)
    assert left.read == left.duplicate


@pytest.mark.parametrize("left_out", ["exclusion", "watermark"])
def test_without_a_rule_rows_are_shown_twice_or_lost(left_out: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the rows that are shown, and the watermark, are excluded and pinned for."""
    world = broken(3)
    world.repair()
    if left_out == "exclusion":
        found = as_shown.input_of
        monkeypatch.setattr(
            "effectively_once.epoch.as_shown.input_of",
            lambda step, whole: whole if step.task.declaration.repairs is not None else found(step, whole),
        )
    else:
        due = due_epoch.repair

        def with_its_own(head: Head) -> Declaration | None:
            found = due(head)
            return found and found.model_copy(update={"watermark_ms": head.watermark_ms})

        monkeypatch.setattr(due_epoch, "repair", with_its_own)
    with pytest.raises((AssertionError, ChainError)):
        assert_goes_on(world)


@pytest.mark.parametrize("puts", range(1, 7))
@pytest.mark.thinned(3)
def test_an_interrupted_command_is_run_again_and_a_driver_that_starts_instead_is_refused(puts: int) -> None:
    """Each put of: head taken over, rows of both shards, head."""
    world = broken(after=("dead_letter", 1), shards=(0, 1))
    pinned = world.declared
    world.store.break_off_after(puts)
    broke = False
    try:
        world.mending().carry_out(pinned, OLD)
    except ConnectionError:
        broke = True
    world.store.mend()
    assert broke == (puts < 4)
    if broke:
        assert world.declared == pinned
        with pytest.raises(SinkError):
            world.driver().start()
        world.repair()
    assert_goes_on(world)


PLACES = [(name, shard) for name in ("accepted", "orders", "dead_letter", "per_user", "per_id") for shard in (0, 1)]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("number", [HIT, HIT + 1])
@pytest.mark.thinned(6)
def test_a_driver_that_dies_anywhere_in_finishing_or_repairing_is_followed_by_another(
    place: tuple[str, int], number: int
) -> None:
    world = broken(7)
    world.repair()

    def die(epoch: int) -> None:
        if epoch == number:
            raise Killed

    world.sinks[place].before = die
    with pytest.raises(Killed):
        world.driver().start()
    mend(world)
    assert_goes_on(world)


def test_a_driver_that_dies_between_the_two_is_followed_by_one_that_repairs() -> None:
    world = broken(7)
    world.repair()
    driver = world.driver()
    driver.finish(world.declared)
    assert due_epoch.repair(world.head) is not None
    with pytest.raises(ChainError, match=f"epoch {HIT} has to be repaired first"):
        driver.declare()
    assert_goes_on(world)


@pytest.mark.parametrize(
    ("after", "shards", "until", "says"),
    [
        # Its dead letters, which the pinned rows know nothing of.
        (("orders", 0), (0,), ("dead_letter", 0), f"^epoch {HIT} is published with digest .*dead_letter shard 0"),
        (("dead_letter", 0), (0, 1), ("dead_letter", 1), f"epoch {HIT} "),
    ],
    ids=["in the shard it saw", "in another shard"],
)
def test_what_became_visible_after_the_command_looked_is_found_by_running_it_again(
    after: tuple[str, int], shards: tuple[int, ...], until: tuple[str, int], says: str
) -> None:
    """A driver of before that went on shows more."""
    world = broken(after=after, shards=shards)
    sleeping = world.driver()
    sleeping.part = truncating(1, *shards)
    pinned = world.declared
    world.repair()
    assert set(world.declared.shown) == {"0"}
    kill(world, until)
    with pytest.raises(Killed):
        sleeping.attempt(pinned, *pinned.ranges["events"]["0"])
    mend(world)
    with pytest.raises(SinkError, match=says):
        world.driver().start()
    world.repair()
    assert set(world.declared.shown) == {str(shard) for shard in shards}
    assert_goes_on(world)


@pytest.mark.parametrize("place", [("orders", 0), ("dead_letter", 1)])
def test_a_transaction_that_is_open_when_the_command_takes_over_shows_nothing_any_more(place: tuple[str, int]) -> None:
    world = broken(after=("accepted", 0))
    sleeping = world.driver()
    sleeping.part = truncating(1, 0)
    pinned = world.declared

    def command(_: int) -> None:
        mend(world)
        world.repair()

    world.sinks[place].open = command
    with pytest.raises(FencedError):
        sleeping.attempt(pinned, *pinned.ranges["events"]["0"])
    assert pinned.epoch not in world.sinks[place].log
    assert_goes_on(world)


def test_a_look_changes_nothing_and_tells_each_shard() -> None:
    world = broken(after=("orders", 0))
    before, requests = dict(world.store.objects), len(world.store.requests)
    world.mending().look(world.declared)
    assert world.store.objects == before
    assert not [request for request in world.store.requests[requests:] if type(request).__name__ != "Get"]
    number = world.declared.epoch
    shown = len(world.sinks["accepted", 0].log[number])
    assert world.told == [
        f"shard 0: accepted shows {shown} rows (topic t.accepted partition 0), orders shows {shown} rows "
        f"(table t.orders), {shown} ids are decided",
        "shard 1: nothing",
    ]


def test_a_driver_that_starts_meanwhile_or_goes_on_is_told() -> None:
    world = broken(part=lambda _, rows: rows)
    pinned = world.declared
    puts = []

    def start(request: object) -> None:
        puts.append(request)
        if len(puts) == 3:
            world.driver()

    world.store.before = start
    with pytest.raises(StaleDriverError, match="was replaced by driver"):
        world.mending().carry_out(pinned, OLD)
    world.store.mend()
    world.driver().run(1)
    before = world.head
    with pytest.raises(StaleDriverError, match=f"epoch {HIT} is not declared any more"):
        world.mending().carry_out(pinned, OLD)
    assert world.head == before


def test_another_version_may_finish_it_when_that_is_asked_for() -> None:
    """And that version has to repair it too: which rows are of which shard must not change in between."""
    world = broken()
    with pytest.raises(VersionError):
        world.driver(MENDED)
    world.repair(MENDED)
    with pytest.raises(VersionError):
        world.driver(OLD)
    assert_goes_on(world, MENDED)
    assert {record.wheel_digest for record in world.head.tail[HIT:]} == {MENDED}


def test_an_epoch_that_repairs_another_cannot_be_abandoned_or_repaired() -> None:
    world = broken()
    world.repair()
    driver = world.driver()
    driver.finish(world.declared)
    due = due_of(world.head)
    held = run(chain.declare(world.layout, driver.held, due, None, 0), world.store)
    with pytest.raises(ChainError, match=f"epoch {HIT + 1} repairs epoch {HIT}, whose missing rows would be lost"):
        run(interventions.abandon(world.layout, held), world.store)
    assert world.head == held.head
    with pytest.raises(ChainError, match="no epoch is declared that could be finished"):
        run(interventions.finish_as_shown(world.layout, held, dict(due.shown), OLD), world.store)
    assert_goes_on(world)
