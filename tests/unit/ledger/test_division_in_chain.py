"""What the chain says of an epoch that was more than a shard takes, and of those that take its rest."""

from __future__ import annotations

import pytest

from effectively_once.errors import ChainError, VersionError
from effectively_once.ledger import chain, continuity, due_epoch, interventions, pinned_version, segments
from effectively_once.ledger.as_shown import AsShown
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.ledger.head import decode
from effectively_once.ledger.held import Held
from effectively_once.ledger.loss import Loss
from effectively_once.ledger.objects import run
from effectively_once.ledger.offsets import Place, Ranges
from effectively_once.ledger.rows import Rows
from effectively_once.ledger.segments import TAIL_LIMIT
from tests.unit.ledger.memory_store import MemoryStore
from tests.unit.ledger.samples import (
    LAYOUT,
    WHEEL,
    advanced,
    declaration,
    declared_in,
    due_of,
    ranges,
    record_of,
    taken,
)


def left(offset: int) -> dict[str, Place]:
    return {"1": ("events", 1, offset)}


def leaving(pinned: Declaration, where: dict[str, Place]) -> EpochRecord:
    return record_of(pinned).model_copy(update={"left": where})


def ended(of: Ranges) -> Ranges:
    return {topic: {p: (end, end) for p, (_, end) in parts.items()} for topic, parts in of.items()}


def divided(store: MemoryStore, parts: int = 0, epochs: int = 2, given_up: int | None = None) -> Held:
    """Record so many epochs, then one that leaves rows, and so many parts that leave some, too; one is abandoned."""
    held = advanced(store, taken(store), epochs)
    held = run(chain.declare(LAYOUT, held, declaration(epochs), None, 0), store)
    held = run(chain.record(LAYOUT, held, leaving(declaration(epochs), left(41))), store)
    for number in range(parts):
        held = part(store, held, left(42 + number), abandoned=number == given_up)
    return held


def part(store: MemoryStore, held: Held, where: dict[str, Place], *, abandoned: bool = False) -> Held:
    held = run(chain.declare(LAYOUT, held, due_of(held.head), None, 0), store)
    if abandoned:
        held = run(interventions.abandon(LAYOUT, held), store)
    due = declared_in(held)
    return run(chain.record(LAYOUT, held, leaving(due, due.after if abandoned else where)), store)


def test_what_comes_next_reads_the_same_ranges_consumes_nothing_and_closes_no_window() -> None:
    due = due_of(divided(MemoryStore()).head)
    assert (due.epoch, due.repairs, due.after, due.reads) == (3, 2, left(41), ranges(2))
    assert due.ranges == ended(ranges(2))
    assert due.watermark_ms == due.previous_watermark_ms == declaration(2).watermark_ms
    assert (due.empty, due.is_abandoned, due.reads_nothing, due.offsets) == (True, False, False, 30)


def test_every_part_reads_the_ranges_of_the_epoch_that_was_divided_until_nothing_is_left() -> None:
    store = MemoryStore()
    held = divided(store, parts=3)
    due = due_of(held.head)
    assert (due.epoch, due.repairs, due.after, due.reads) == (6, 5, left(44), ranges(2))
    held = part(store, held, {})
    assert due_epoch.repair(held.head) is None
    assert [record.left for record in held.head.tail[2:]] == [left(41), left(42), left(43), left(44), {}]
    head = decode(held.head.encode(), "")
    assert head == held.head
    assert run(chain.declare(LAYOUT, held, declaration(7, ranges(3)), None, 0), store).head.declared is not None


def test_what_an_epoch_reads_is_told_also_of_one_that_is_declared() -> None:
    store = MemoryStore()
    held = divided(store, parts=2)
    due = due_of(held.head)
    held = run(chain.declare(LAYOUT, held, due, None, 0), store)
    assert held.head.declared == due
    assert due_epoch.input_of(held.head, due) == ranges(2)
    assert due_epoch.input_of(held.head, declaration(9)) == ranges(9)


def test_any_version_takes_a_rest_that_nobody_has_declared_and_then_no_other_one() -> None:
    store = MemoryStore()
    held = divided(store)
    pinned_version.same_version(held.head, "d" * 64, "here")
    held = run(chain.declare(LAYOUT, held, due_of(held.head), None, 0), store)
    pinned_version.same_version(held.head, WHEEL, "here")
    with pytest.raises(VersionError, match="epoch 3 was declared by wheel aaaaaaaaaaaa, this is wheel dddddddddddd"):
        pinned_version.same_version(held.head, "d" * 64, "here")


def test_what_an_operator_had_repaired_stays_with_its_version_also_where_it_is_divided() -> None:
    store = MemoryStore()
    held = divided(store)
    shown = held.head.tail[-1].model_copy(update={"shown": {"0": AsShown(rows=1)}})
    head = held.head.model_copy(update={"tail": (*held.head.tail[:-1], shown)})
    with pytest.raises(VersionError):
        pinned_version.same_version(head, "d" * 64, "here")


def test_what_came_to_a_shard_is_pinned_as_long_as_it_leaves_rows() -> None:
    store = MemoryStore()
    held = advanced(store, taken(store), 2)
    held = run(chain.declare(LAYOUT, held, declaration(2), None, 0), store)
    came = {"0": Rows(rows=3, digest="1"), "1": Rows(rows=4, digest="2")}
    record = leaving(declaration(2), {"0": ("events", 0, 25), **left(41)}).model_copy(update={"came": came})
    held = run(chain.record(LAYOUT, held, record), store)
    due = due_of(held.head)
    assert due.came == came
    held = run(chain.declare(LAYOUT, held, due, None, 0), store)
    held = run(chain.record(LAYOUT, held, leaving(due, left(50))), store)
    assert due_of(held.head).came == {"1": came["1"]}


def test_before_its_rest_is_taken_nothing_else_is_declared_or_given_up() -> None:
    store = MemoryStore()
    held = divided(store)
    loss = Loss(offsets={"events": {"0": (30, 35)}}, at_ms=1)
    for step in (
        chain.declare(LAYOUT, held, declaration(3), None, 0),
        interventions.give_up(LAYOUT, held, loss, lineage="x", wheel_digest=WHEEL),
    ):
        with pytest.raises(ChainError, match="epoch 3 cannot be declared, epoch 2 has to be repaired first"):
            run(step, store)


def test_a_rest_that_is_abandoned_is_due_in_the_next_epoch_for_any_version() -> None:
    """It reads nothing, closes no window, and leaves what it was to take."""
    store = MemoryStore()
    held = divided(store, parts=1)
    due = due_of(held.head)
    held = run(chain.declare(LAYOUT, held, due, None, 0), store)
    held = run(interventions.abandon(LAYOUT, held), store)
    pinned = declared_in(held)
    assert (pinned.is_abandoned, pinned.is_rest, pinned.repairs, pinned.offsets) == (True, False, None, 0)
    assert (due_epoch.input_of(held.head, pinned), pinned.after) == (ended(ranges(2)), due.after)
    assert run(interventions.abandon(LAYOUT, held), store) == held
    pinned_version.same_version(held.head, "d" * 64, "here")
    held = run(chain.record(LAYOUT, held, leaving(pinned, pinned.after)), store)
    again = due_of(held.head)
    assert (again.epoch, again.repairs, again.after, again.reads) == (5, 4, due.after, ranges(2))
    assert (again.is_rest, again.is_abandoned, again.watermark_ms) == (True, False, due.watermark_ms)
    pinned_version.same_version(held.head, "d" * 64, "here")


def test_what_an_operator_had_repaired_is_not_abandoned_though_it_is_divided() -> None:
    store = MemoryStore()
    held = divided(store)
    due = due_of(held.head).model_copy(update={"shown": {"1": AsShown(rows=1)}})
    held = run(chain.declare(LAYOUT, held, due, None, 0), store)
    with pytest.raises(ChainError, match="whose missing rows would be lost"):
        run(interventions.abandon(LAYOUT, held), store)


@pytest.mark.parametrize("given_up", [None, 3])
@pytest.mark.thinned(2)
def test_the_divided_epoch_stays_in_head_while_others_take_its_rest(given_up: int | None) -> None:
    """However many they are: a batch of Spark is compared with its ranges, the watermark goes by all parts."""
    store = MemoryStore()
    held = divided(store, parts=TAIL_LIMIT + 5, epochs=TAIL_LIMIT // 2, given_up=given_up)
    first = TAIL_LIMIT // 2
    assert held.head.segments == ((0, first - 1),)
    assert held.head.tail[0].epoch == first
    assert continuity.classify(held.head, ranges(first), "here") == "recorded"
    late = held.head.tail[0].model_copy(update={"max_event_time_ms": 10**9})
    assert held.head.model_copy(update={"tail": (late, *held.head.tail[1:])}).watermark_ms == 10**9
    held = part(store, held, {})
    after = first + TAIL_LIMIT + 7
    held = run(chain.declare(LAYOUT, held, declaration(after, ranges(first + 1)), None, 0), store)
    held = run(chain.record(LAYOUT, held, record_of(declaration(after, ranges(first + 1)))), store)
    assert len(held.head.segments) == 2
    records = run(segments.history(LAYOUT, held.head), store)
    assert [record.epoch for record in records] == list(range(after + 1))


def test_a_batch_of_spark_is_a_repeat_of_the_divided_epoch_and_an_idle_one_is_no_repeat_of_its_rest() -> None:
    store = MemoryStore()
    held = part(store, divided(store), {})
    assert continuity.classify(held.head, ranges(2), "here") == "recorded"
    assert continuity.classify(held.head, ended(ranges(2)), "here") == "new"
