"""An epoch that is more than a shard takes is divided by its shards: every repeat stops where the first one did."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from effectively_once import Pipeline, ToKafka
from effectively_once.epoch import division, epoch
from effectively_once.errors import InputError, SinkError
from effectively_once.ledger import chain, interventions, segments
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.ledger.held import commit
from effectively_once.ledger.objects import run
from effectively_once.operate.abandon.abandonment import count_shards, kinds, make_record
from tests.unit.ledger.samples import due_of
from tests.unit.library.broken_epochs import EPOCHS, assert_exact, assert_goes_on, begun, broken, kill, mend, records
from tests.unit.library.one_epoch import Place, table
from tests.unit.library.orders_world import MENDED, Killed, World

PIPELINE = Pipeline(lambda frame: frame, pa.schema([("text", pa.string())]), rows=(ToKafka("told"),))
DEEP = pytest.mark.deep
BYTES = 1_500
"""Nine of the twenty rows that a shard has in an epoch of `records`."""


def divided(seed: int = 1, bytes_max: int = BYTES, epochs: int = 0) -> World:
    """Return a pipeline that has published so many epochs whole, and divides the next ones."""
    world = begun(records(seed), epochs=epochs)
    world.bytes_max = bytes_max
    return world


def history(world: World) -> list[EpochRecord]:
    return run(segments.history(world.layout, world.head), world.store)


def rows_of(sizes: list[int], **more: Any) -> pa.Table:
    return table([{"id": "i", "text": "t" * (size - 1), **more} for size in sizes], PIPELINE)


def part_of(rows: pa.Table, chunk: int = 2, seed: int | None = None, **pinned: Any) -> division.Part:
    place = Place()
    step = place.step(place.task(PIPELINE, **pinned))
    if seed is not None:
        order = list(range(rows.num_rows))
        random.Random(seed).shuffle(order)
        rows = rows.take(pa.array(order, pa.int64()))
    return division.input_of(step, rows.to_batches(max_chunksize=chunk))


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 30)), max_size=40),
    st.integers(1, 200),
    st.integers(1, 7),
    st.randoms(use_true_random=False),
)
@example([(0, 10)] * 6, 60, 2, random.Random(1))
@example([(0, 10)] * 6, 59, 2, random.Random(2))
@example([(0, size) for size in (10, 10, 31, 1)], 30, 1, random.Random(3))
@example([(0, size) for size in (1, 500, 1)], 30, 10, random.Random(4))
@example([(0, 500)], 30, 1, random.Random(5))
@example([], 30, 1, random.Random(6))
def test_parts_are_what_plain_python_makes_of_them_in_whatever_order_rows_come(
    given_: list[tuple[int, int]], bound: int, chunk: int, shuffled: random.Random
) -> None:
    """Up to the bound, and one row at least; all parts together are all rows, each once, in source order."""
    rows = rows_of([size for _, size in given_])
    partitions = pa.array([partition for partition, _ in given_], pa.int32())
    rows = rows.set_column(rows.schema.get_field_index("partition"), "partition", partitions)
    due = sorted((partition, offset, size) for offset, (partition, size) in enumerate(given_))
    order = list(range(len(given_)))
    shuffled.shuffle(order)
    mixed, pinned = rows.take(pa.array(order, pa.int64())), dict[str, Any]()
    while True:
        part = part_of(mixed, chunk, bytes_max=bound, **pinned)
        number = total = 0
        while number < len(due) and (not number or total + due[number][2] <= bound):
            total, number = total + due[number][2], number + 1
        taken, due = due[:number], due[number:]
        found = zip(part.rows["partition"].to_pylist(), part.rows["offset"].to_pylist(), strict=True)
        assert list(found) == [(partition, offset) for partition, offset, _ in taken]
        assert part.left == (("t", *due[0][:2]) if due else None)
        assert part.came.rows == len(given_)
        if not due:
            return
        pinned = {"repairs": 3, "reads": {"t": {"0": (0, 40)}}, "after": {"0": part.left}, "came": {"0": part.came}}


def test_values_of_refused_records_count_as_text_and_the_topics_name_does_not() -> None:
    refused = rows_of([1]).drop_columns(["id", "text", "reason", "value"])
    for name, kind, value in (
        ("id", pa.string(), None),
        ("text", pa.string(), None),
        ("reason", pa.string(), "bad"),
        ("value", pa.binary(), b"v" * 7),
    ):
        refused = refused.append_column(name, pa.array([value], kind))
    assert division.sizes(refused).tolist() == [len("bad") + 7]


def test_an_epoch_that_takes_a_rest_begins_where_the_one_before_stopped_and_other_shards_take_nothing() -> None:
    given, rest = rows_of([10] * 6), {"repairs": 3, "reads": {"t": {"0": (0, 6)}}, "bytes_max": 30}
    part = part_of(given, 2, 1, after={"0": ("t", 0, 2)}, **rest)
    assert part.rows["offset"].to_pylist() == [2, 3, 4]
    assert (part.left, part.came.rows) == (("t", 0, 5), 6)
    other = part_of(given, 2, 1, after={"1": ("t", 0, 2)}, **rest)
    assert (other.rows.num_rows, other.left, other.came.rows) == (0, None, 6)


def test_a_rest_of_which_a_row_went_to_another_shard_is_refused() -> None:
    """In the part before it was in this one and left, or in another one and taken: lost, or doubled."""
    given_ = rows_of([10] * 6)
    first = part_of(given_, bytes_max=30)
    rest: dict[str, Any] = {"repairs": 3, "reads": {"t": {"0": (0, 9)}}, "bytes_max": 30}
    rest |= {"after": {"0": first.left}, "came": {"0": first.came}}
    assert part_of(given_, 1, 5, **rest).rows["offset"].to_pylist() == [3, 4, 5]
    for other in (given_.slice(0, 5), rows_of([10] * 7), given_.take(pa.array([0, 1, 2, 3, 4, 4]))):
        with pytest.raises(SinkError, match=rf"{other.num_rows} rows came to shard 0, and 6 others when its epoch"):
            part_of(other, **rest)


def test_no_more_than_twice_the_bound_is_held_while_rows_come(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []
    take = division._Taker.take

    def watched(taker: Any, batch: pa.RecordBatch) -> None:
        take(taker, batch)
        held.append(sum(int(division.sizes(one).sum()) for one in taker._held))

    monkeypatch.setattr(division._Taker, "take", watched)
    part = part_of(rows_of([10] * 400), 5, 7, bytes_max=200)
    assert part.rows.num_rows == 20
    assert max(held) <= 400 + 50


def test_by_default_a_shard_takes_what_memory_is_made_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(division, "SHARD_BYTES", 20)
    assert part_of(rows_of([10] * 6)).rows.num_rows == 2


def test_input_that_is_not_whole_is_divided_by_nobody() -> None:
    """The proof comes last (R13)."""

    def torn() -> Any:
        yield from rows_of([10] * 6).to_batches(max_chunksize=2)
        raise InputError("the input of a shard is not whole", "here", "Repeat it.")

    place = Place()
    step = place.step(place.task(PIPELINE, bytes_max=10))
    with pytest.raises(InputError):
        list(epoch.deduplicate(step, torn()))
    assert not place.published


@pytest.mark.parametrize(
    ("seed", "bytes_max"), [pytest.param(0, 1, marks=DEEP), (0, BYTES), pytest.param(1, BYTES, marks=DEEP), (2, 900)]
)
def test_what_is_divided_comes_to_the_same_as_what_is_not(seed: int, bytes_max: int) -> None:
    """Copies and late records are told alike, windows close with all rows, counts add up."""
    world = divided(seed, bytes_max)
    assert_goes_on(world, epochs=EPOCHS)
    parts = [record for record in history(world) if record.repairs is not None]
    assert len(parts) >= EPOCHS, "nothing was divided"
    assert all(record.watermark_ms == record.previous_watermark_ms for record in parts)
    taken = Counter(record.epoch for record in history(world) if record.counts.read)
    assert len(taken) == len(history(world)), "an epoch took nothing"


PLACES = [("accepted", 0), ("orders", 0), ("dead_letter", 0), ("orders", 1), ("dead_letter", 1), ("per_user", 0)]


@pytest.mark.parametrize("after", PLACES)
@pytest.mark.parametrize("part", [0, 1, pytest.param(2, marks=DEEP)])
@pytest.mark.thinned(4)
def test_whichever_part_its_driver_died_in_whoever_comes_next_divides_alike(after: tuple[str, int], part: int) -> None:
    """A shard that had published is found published, one that had not stops where it would have."""
    world = divided(epochs=2)
    kill(world, after)
    dead = world.driver()
    with pytest.raises(Killed):
        _next(world, dead, part)
    mend(world)
    assert_goes_on(world, epochs=EPOCHS - 3)


def _next(world: World, driver: Any, part: int) -> None:
    """Go to a part of the third batch with sinks that work, and begin it with those that do not."""
    dying = {place: sink.before for place, sink in world.sinks.items()}
    mend(world)
    pinned = driver.declare()
    for _ in range(part):
        driver.finish(pinned)
        due = due_of(driver.held.head)
        driver.held = run(chain.declare(world.layout, driver.held, due, None, driver.live.floor(due)), world.store)
        pinned = due
    for place, sink in world.sinks.items():
        sink.before = dying[place]
    driver.finish(pinned)


def test_a_driver_with_another_bound_repeats_what_is_declared_by_that_of_the_declaration() -> None:
    world = divided(epochs=2)
    kill(world, ("orders", 0))
    dead = world.driver()
    with pytest.raises(Killed):
        dead.finish(dead.declare())
    mend(world)
    world.bytes_max = 10_000
    assert_goes_on(world, epochs=EPOCHS - 3)


def test_of_ids_that_are_others_in_each_attempt_no_row_is_lost_or_doubled() -> None:
    """The rest is refused where rows have other shards than when the epoch was divided."""
    world = divided(epochs=2)
    driver = world.driver()
    driver.finish(driver.declare())
    shown = world.visible()
    judged = driver.judged
    turned = lambda *given: _turned(judged(*given))  # noqa: E731
    driver.judged = turned  # type: ignore[method-assign]
    with pytest.raises(SinkError, match="others when its epoch was divided"):
        driver.take_rest()
    assert world.visible() == shown
    assert_goes_on(world, epochs=EPOCHS - 3)


def _turned(rows: pa.Table) -> pa.Table:
    """Give every row the shard of the one before it."""
    shards = rows["shard"].to_pylist()
    at = rows.schema.get_field_index("shard")
    return rows.set_column(at, "shard", pa.array([*shards[-1:], *shards[:-1]], pa.int32()))


def test_another_version_takes_the_rest_of_what_its_shards_know() -> None:
    world = divided()
    old = world.driver()
    old.finish(old.declare())
    assert history(world)[-1].left
    assert_goes_on(world, MENDED, epochs=EPOCHS - 1)
    assert {record.wheel_digest for record in history(world)[1:]} == {MENDED}


@pytest.mark.parametrize("by", ["operator", "driver"])
@pytest.mark.thinned(2)
def test_a_rest_that_fails_in_every_repeat_is_abandoned_and_a_mended_version_takes_it(by: str) -> None:
    """Whoever publishes the abandoned epoch over nothing records that its rest is still due."""
    world = divided()
    old = world.driver()
    old.finish(old.declare())
    due = due_of(old.held.head)
    old.held = run(chain.declare(world.layout, old.held, due, None, old.live.floor(due)), world.store)
    held = run(
        interventions.abandon(world.layout, run(chain.take_over(world.layout, "operator", {}), world.store)),
        world.store,
    )
    if by == "operator":
        pinned = world.declared
        for name, shard in world.sinks:
            world.sinks[name, shard].publish(pinned.epoch, held.head.generation, _nothing(world, name))
        for name in world.pipeline.file_sinks:
            world.manifests(name).publish_staged(pinned.epoch, held.head.generation, [])
        record = make_record(pinned, held.head.generation, count_shards(world.pipeline, 2), kinds(world.pipeline))
        run(chain.record(world.layout, held, record), world.store)
    assert_goes_on(world, MENDED, epochs=EPOCHS - 1)
    assert [record.is_abandoned for record in history(world)[:4]] == [False, True, False, False]


def _nothing(world: World, name: str) -> Any:
    return world.pipeline.schema_of(name).empty_table() if name in world.pipeline.tables else []


def test_a_replaced_driver_that_goes_on_shows_the_same_part() -> None:
    """It need not look at head: it is fenced, or its rows are those of the declaration."""
    world = divided(epochs=2)
    old = world.driver()
    pinned = old.declare()
    new = world.driver()
    new.finish(pinned)
    shown = world.visible()
    old.attempt(pinned, *pinned.ranges[world.topic]["0"])
    assert world.visible() == shown
    new.take_rest()
    new.run(EPOCHS - 3)
    assert_exact(world)


def test_an_epoch_that_an_operator_had_finished_as_shown_is_divided_where_it_showed_nothing() -> None:
    world = broken(2)
    pinned = world.declared
    world.repair()
    assert pinned.bytes_max is None
    head = world.head
    assert head.declared is not None
    held = run(chain.take_over(world.layout, "divider", {}), world.store)
    small = head.declared.model_copy(update={"bytes_max": BYTES})
    new = held.head.model_copy(update={"declared": small, "sequence": held.head.sequence + 1})
    run(commit(world.layout, held, new), world.store)
    assert_goes_on(world, epochs=EPOCHS - 4)
    parts = [record for record in history(world) if record.repairs is not None]
    assert any(record.left for record in parts), "the repair was not divided"
