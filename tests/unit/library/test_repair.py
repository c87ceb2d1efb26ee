"""An epoch of which a shard has shown too little: finished as shown, and repaired by the next one."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable

import pyarrow as pa
import pytest

from effectively_once import Pipeline, RecordedStep, ToFiles, ToKafka, ToTable
from effectively_once.epoch import as_shown
from effectively_once.errors import ChainError, ControlError, SinkError, StaleDriverError, VersionError
from effectively_once.ledger import chain
from effectively_once.ledger.objects import run
from effectively_once.ledger.records import Declaration, Head
from effectively_once.pipeline.columns import DEAD_LETTER
from effectively_once.sinks.publish import FencedError, Mark
from effectively_once.state import deltas
from tests.unit.library.orders_world import COLUMNS, MENDED, OLD, ORDERS, WINDOWS, Killed, Record, World, WorldDriver

SIZE, HIT = 40, 3
"""Rows of an epoch, and the one that is truncated."""


def records(seed: int, number: int = 8 * SIZE, length: int = 160) -> list[Record]:
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
    world = World(records(seed, length=length), SIZE, pipeline)
    world.driver().run(HIT)
    driver = world.driver()
    driver.part = part or truncating(seed, *shards)
    kill(world, after)
    with pytest.raises(Killed):
        driver.finish(driver.declare())
    mend(world)
    return world


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
    which = f"{epochs} {world.topic} {json.dumps(world.records)} {world.pipeline!r}"
    if which not in CONTROLS:
        control = World(world.records, world.size, world.pipeline, world.topic)
        control.driver().run(epochs)
        CONTROLS[which] = control.visible(), control.counts()
    return CONTROLS[which]


def assert_exact(world: World, epochs: int = 8) -> None:
    """Assert that every sink shows what an untruncated run shows, windows included, and the counts add up."""
    due, numbers = untruncated(world, epochs)
    shown, counts = world.visible(), world.counts()
    for name, rows in due.items():
        assert shown[name] == rows, name
    assert counts == numbers
    assert counts["in"] == counts["accepted"] + counts["duplicate"] + counts["late"] + counts["malformed"]


AFTER = [("accepted", 0), ("orders", 0), ("dead_letter", 0), ("orders", 1), ("dead_letter", 1)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("shards", [(0,), (0, 1)])
def test_what_an_epoch_lacks_the_next_one_shows_and_both_come_to_an_untruncated_run(
    seed: int, after: tuple[str, int], shards: tuple[int, ...]
) -> None:
    """Wherever its driver died, and whichever rows were missing; windows close with every row."""
    world = broken(seed, after=after, shards=shards)
    with pytest.raises(SinkError):
        world.driver().start()
    world.repair()
    world.driver().run(8 - HIT - 1)
    assert_exact(world)
    finished, repairing = world.head.tail[HIT : HIT + 2]
    assert (finished.repairs, repairing.repairs) == (None, HIT)
    assert set(finished.shown) == ({"0", "1"} if after[1] else {"0"})
    assert finished.shown == repairing.shown
    assert repairing.counts.accepted > 0
    assert (repairing.watermark_ms, repairing.previous_watermark_ms) == (finished.watermark_ms, finished.watermark_ms)
    assert repairing.empty
    assert not repairing.is_abandoned


@pytest.mark.parametrize("length", [0, 60])
@pytest.mark.parametrize("seed", range(4))
def test_decisions_that_travel_inline_are_read_from_what_is_visible(seed: int, length: int) -> None:
    """There is no object of the decision then, only rows; or that of a repeat which was refused."""
    world = broken(seed, length=length, part=lambda shard, rows: rows.slice(2, 5) if shard == 0 else rows)
    assert not [key for key in world.store.objects if f"/ids/0000/{HIT:09d}" in key]
    with pytest.raises(SinkError):
        world.driver().start()
    if length:
        assert [key for key in world.store.objects if f"/ids/0000/{HIT:09d}" in key], "the refused repeat left one"
    world.repair()
    world.driver().run(8 - HIT - 1)
    assert_exact(world)


def test_a_shard_that_got_no_row_at_all_is_repaired() -> None:
    world = broken(part=lambda shard, rows: rows.slice(0, 0) if shard == 0 else rows)
    world.repair()
    assert world.declared.shown["0"].key is None
    world.driver().run(8 - HIT - 1)
    assert_exact(world)


def test_without_ids_attached_every_row_is_still_taken_once() -> None:
    pipeline = Pipeline(lambda frame: frame, COLUMNS, ids="coordinates", rows=(ToKafka("accepted"), ToTable("orders")))
    world = broken(pipeline=pipeline)
    with pytest.raises(SinkError, match=f"^epoch {HIT} is published with digest"):
        world.driver().start()
    world.repair()
    world.driver().run(8 - HIT - 1)
    assert_exact(world)


def test_with_tables_alone_the_ids_that_were_decided_tell_the_rows() -> None:
    """As long as the copy that was lost is not the one that would have won."""
    pipeline = Pipeline(
        lambda frame: frame, COLUMNS, window_ms=100, lateness_ms=100, windows=WINDOWS[:1], rows=(ToTable("orders"),)
    )
    world = broken(after=("orders", 0), pipeline=pipeline, part=lambda _, rows: rows.slice(0, rows.num_rows // 2))
    world.repair()
    assert world.declared.shown["0"].ids is not None
    world.driver().run(8 - HIT - 1)
    assert_exact(world)


def test_a_copy_that_a_table_shows_and_its_ids_do_not_tell_is_refused() -> None:
    """The first copy was lost, and the second is visible: finishing with the first would show something else."""
    pipeline = Pipeline(lambda frame: frame, COLUMNS, window_ms=100, lateness_ms=100, rows=(ToTable("orders"),))

    def second_copies(shard: int, rows: pa.Table) -> pa.Table:
        return rows if shard else rows.slice(1)

    sent = [{"id": f"{n:0160}", "event_time_ms": n * 10} for n in range(4 * SIZE)]
    world = World(sent, SIZE, pipeline)
    world.driver().run(HIT)
    driver = world.driver()
    lost = next(n for n in range(HIT * SIZE, 4 * SIZE) if driver_shard(driver, n) == 0)
    world.records[lost + 5] = dict(world.records[lost])
    driver.part = second_copies
    kill(world, ("orders", 0))
    with pytest.raises(Killed):
        driver.finish(driver.declare())
    mend(world)
    world.repair()
    with pytest.raises(SinkError, match=f"^epoch {HIT} is published with digest"):
        world.driver().start()


def driver_shard(driver: WorldDriver, offset: int) -> int:
    found: int = driver.judged(driver.held.head.tail[-1], offset, offset + 1)["shard"][0].as_py()
    return found


@pytest.mark.parametrize("seed", range(3))
def test_windows_decided_on_some_partials_are_decided_again(seed: int) -> None:
    """The second step got too little: nothing visible depends on its decision."""
    world = World(records(seed), SIZE)
    world.driver().run(HIT)
    driver = world.driver()
    driver.partials = lambda shard, rows: rows if shard else rows.slice(0, rows.num_rows // 2)
    pinned = driver.declare()
    driver.attempt(pinned, *pinned.ranges["events"]["0"])
    with pytest.raises(SinkError, match=r"decided otherwise in step 'per_(user|id)', shard 0.*effectively-once repair"):
        world.driver().start()
    world.repair()
    world.driver().run(8 - HIT - 1)
    assert_exact(world)


def test_windows_that_the_first_attempt_showed_stay_as_they_are() -> None:
    """It went through with truncated rows, up to the files, and died before it was recorded."""
    world = World(records(5), SIZE)
    world.driver().run(HIT)
    driver = world.driver()
    driver.part = truncating(5, 0)
    driver.finish(driver.declare())
    body = world.store.objects[world.layout.head]
    head = chain.decoded(body, "")
    lost = head.model_copy(update={"tail": head.tail[:-1], "last_recorded": HIT - 1, "declared": head_declared(head)})
    world.store.objects[world.layout.head] = lost.encoded()
    with pytest.raises(SinkError):
        world.driver().start()
    world.repair()
    world.driver().run(8 - HIT - 1)
    assert_exact(world)


def head_declared(head: Head) -> Declaration:
    last = head.tail[-1]
    return Declaration(**{name: getattr(last, name) for name in Declaration.model_fields})


@pytest.mark.parametrize("epoch", [0, 1])
def test_the_first_epochs_can_be_repaired(epoch: int) -> None:
    """There is no watermark yet."""
    world = World(records(2), SIZE)
    world.driver().run(epoch)
    driver = world.driver()
    driver.part = truncating(2, 0)
    kill(world, ("dead_letter", 0))
    with pytest.raises(Killed):
        driver.finish(driver.declare())
    mend(world)
    world.repair()
    assert world.head.tail[epoch:] == ()
    world.driver().run(8 - epoch - 1)
    assert_exact(world)


def test_an_epoch_that_was_whole_is_repaired_by_one_that_accepts_nothing() -> None:
    """The command cannot tell: only duplicates are left of it."""
    world = broken(part=lambda _, rows: rows)
    world.repair()
    world.driver().run(8 - HIT - 1)
    assert_exact(world)
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
        due = chain.repair

        def with_its_own(head: Head) -> Declaration | None:
            found = due(head)
            return found and found.model_copy(update={"watermark_ms": head.watermark_ms})

        monkeypatch.setattr(chain, "repair", with_its_own)
    with pytest.raises((AssertionError, ChainError)):
        world.driver().run(8 - HIT - 1)
        assert_exact(world)


@pytest.mark.parametrize("puts", range(1, 7))
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
    world.driver().run(8 - HIT - 1)
    assert_exact(world)


PLACES = [(name, shard) for name in ("accepted", "orders", "dead_letter", "per_user", "per_id") for shard in (0, 1)]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("number", [HIT, HIT + 1])
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
    world.driver().run(8 - HIT - 1)
    assert_exact(world)


def test_a_driver_that_dies_between_the_two_is_followed_by_one_that_repairs() -> None:
    world = broken(7)
    world.repair()
    driver = world.driver()
    driver.finish(world.declared)
    assert chain.repair(world.head) is not None
    with pytest.raises(ChainError, match=f"epoch {HIT} has to be repaired first"):
        driver.declare()
    world.driver().run(8 - HIT - 1)
    assert_exact(world)


def test_what_became_visible_after_the_command_looked_is_found_by_running_it_again() -> None:
    """A driver of before that went on: it shows its dead letters, which the pinned rows know nothing of."""
    world = broken(after=("orders", 0))
    sleeping = world.driver()
    sleeping.part = truncating(1, 0)
    pinned = world.declared
    world.repair()
    kill(world, ("dead_letter", 0))
    with pytest.raises(Killed):
        sleeping.attempt(pinned, *pinned.ranges["events"]["0"])
    mend(world)
    with pytest.raises(SinkError, match=f"^epoch {HIT} is published with digest .*dead_letter shard 0"):
        world.driver().start()
    world.repair()
    world.driver().run(8 - HIT - 1)
    assert_exact(world)


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
    world.driver().run(8 - HIT - 1)
    assert_exact(world)


def test_a_shard_that_went_on_after_the_command_looked_is_found_by_running_it_again() -> None:
    world = broken(after=("dead_letter", 0), shards=(0, 1))
    sleeping = world.driver()
    sleeping.part = truncating(1, 0, 1)
    pinned = world.declared
    world.repair()
    assert set(world.declared.shown) == {"0"}
    with pytest.raises(Killed):
        kill(world, ("dead_letter", 1))
        sleeping.attempt(pinned, *pinned.ranges["events"]["0"])
    mend(world)
    with pytest.raises(SinkError):
        world.driver().start()
    world.repair()
    assert set(world.declared.shown) == {"0", "1"}
    world.driver().run(8 - HIT - 1)
    assert_exact(world)


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
    world = World(records(1), SIZE)
    driver = world.driver()
    driver.run(HIT)
    driver.declare()
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
    world = World(records(1, length=1), SIZE, pipeline)
    world.driver().run(HIT)
    driver = world.driver()
    driver.part = lambda _, rows: rows.slice(0, 5)
    pinned = driver.declare()
    told = driver.attempt(pinned, *pinned.ranges["events"]["0"])
    assert driver.record(pinned, told)
    head = world.head
    lost = head.model_copy(update={"tail": head.tail[:-1], "last_recorded": HIT - 1, "declared": pinned})
    world.store.objects[world.layout.head] = lost.encoded()
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
    world.driver().run(8 - HIT - 1)
    assert_exact(world)


def test_rows_that_were_pinned_and_are_others_by_now_are_refused() -> None:
    """As many as were pinned, but not these."""
    world = broken()
    world.repair()
    shown = world.declared.shown["0"]
    assert shown.key is not None
    table = as_shown.read(world.store, shown)
    other = table.set_column(2, "offset", pa.array([offset + 1 for offset in table["offset"].to_pylist()]))
    world.store.objects[shown.key] = deltas.encoded(other)
    with pytest.raises(ChainError, match=r"cannot be read: its rows are not those that were pinned"):
        world.driver().start()


def test_dead_letters_that_do_not_say_where_they_were_read_are_refused() -> None:
    world = broken()
    sink = world.sinks["dead_letter", 0]
    assert sink.log[HIT], "there are some"
    sink.log[HIT] = [(None, b"{}")]
    refused(world, "its dead letters do not tell where they were read")


def test_what_was_recorded_for_rows_that_nobody_saw_is_recorded_anew() -> None:
    """It answers for the rows of the part, and all of them are taken now."""
    step = RecordedStep("priced", lambda rows: pa.table({"price": rows["amount"]}), pa.schema([("price", pa.int64())]))
    pipeline = Pipeline(
        lambda frame: frame, COLUMNS, window_ms=100, lateness_ms=100, windows=WINDOWS, recorded=step, rows=ORDERS.rows
    )
    world = broken(4, after=None, pipeline=pipeline)
    assert world.layout.recorded("priced", HIT, 0) in world.store.objects
    world.repair()
    world.driver().run(8 - HIT - 1)
    assert_exact(world)


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
    world.driver(MENDED).run(8 - HIT - 1)
    assert_exact(world)
    assert {record.wheel_digest for record in world.head.tail[HIT:]} == {MENDED}


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
    world.driver().run(8 - HIT - 1)
    asked = Counter(answers)
    assert_exact(world)
    shown = set(as_shown.read(world.store, world.head.tail[HIT].shown["0"])["offset"].to_pylist())
    assert [asked[offset] for offset in shown] == [before[offset] for offset in shown], "they are not asked again"
    assert set(asked.values()) <= {1, 2}


def test_an_epoch_that_repairs_another_cannot_be_abandoned_or_repaired() -> None:
    world = broken()
    world.repair()
    driver = world.driver()
    driver.finish(world.declared)
    due = chain.repair(world.head)
    assert due is not None
    held = run(chain.declare(world.layout, driver.held, due, None, 0), world.store)
    with pytest.raises(ChainError, match=f"epoch {HIT + 1} repairs epoch {HIT}, whose missing rows would be lost"):
        run(chain.abandon(world.layout, held), world.store)
    with pytest.raises(ChainError, match="no epoch is declared that could be finished"):
        run(chain.finish_as_shown(world.layout, held, dict(due.shown), OLD), world.store)
    world.driver().run(8 - HIT - 1)
    assert_exact(world)


@pytest.mark.parametrize("seed", range(3))
def test_a_decision_that_nobody_saw_is_taken_again(seed: int) -> None:
    """No shard is finished as shown, and no epoch has to repair another."""
    world = broken(seed, after=None)
    with pytest.raises(SinkError, match="decided otherwise in step 'ids', shard 0"):
        world.driver().start()
    assert world.mending().look(world.declared) == []
    assert "ids are decided, which nobody sees" in world.told[0]
    world.repair()
    assert world.declared.shown == {}
    world.driver().run(8 - HIT - 1)
    assert_exact(world)
    assert not [record for record in world.head.tail if record.shown]


def test_abandoning_an_epoch_takes_back_what_was_pinned_of_it() -> None:
    world = broken()
    world.repair()
    held = run(chain.take_over(world.layout, "operator", {}), world.store)
    abandoned = run(chain.abandon(world.layout, held), world.store).head.declared
    assert abandoned is not None
    assert (abandoned.is_abandoned, abandoned.shown) == (True, {})


def test_ids_that_are_shown_are_known_to_the_epoch_that_repairs() -> None:
    """A copy of a row that was shown is a duplicate, not a second row."""
    world = broken(6)
    world.repair()
    world.driver().run(8 - HIT - 1)
    assert world.head.tail[HIT + 1].counts.duplicate > 0
    ids = [row["id"] for shard in (0, 1) for row in world.sinks["orders", shard].all()]
    assert len(ids) == len(set(ids))
