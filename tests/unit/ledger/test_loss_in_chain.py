"""Input that the topic lost: a gap is refused, unless the chain records that it was given up."""

from __future__ import annotations

import json

import pytest

from effectively_once.errors import ChainError
from effectively_once.ledger import chain, continuity, due_epoch, interventions
from effectively_once.ledger.as_shown import AsShown
from effectively_once.ledger.clock import Clock
from effectively_once.ledger.head import Head, decode
from effectively_once.ledger.held import Held
from effectively_once.ledger.loss import Loss
from effectively_once.ledger.objects import run
from effectively_once.ledger.offsets import Ranges
from tests.unit.ledger.memory_store import MemoryStore
from tests.unit.ledger.samples import (
    LAYOUT,
    WHEEL,
    advanced,
    declaration,
    declared_in,
    due_of,
    finished_over_nothing,
    record_of,
    taken,
)

GONE: Ranges = {"events": {"0": (30, 37)}}
"""What follows three epochs of the samples: partition 0 ends at 30, partition 1 at 60."""


def lost(offsets: Ranges = GONE) -> Loss:
    return Loss(offsets=offsets, at_ms=1_750_000_000_000)


def give_up(store: MemoryStore, held: Held, loss: Loss) -> Held:
    return run(interventions.give_up(LAYOUT, held, loss, lineage="000009-beef", wheel_digest="c" * 64), store)


def test_a_gap_that_is_recorded_as_a_loss_is_gone_on_behind_and_no_other() -> None:
    store = MemoryStore()
    held = advanced(store, taken(store), 3)
    behind: Ranges = {"events": {"0": (37, 40), "1": (60, 80)}}
    with pytest.raises(
        ChainError, match="a gap: topic events partition 0 continues at offset 37, the chain ends at 30"
    ):
        run(chain.declare(LAYOUT, held, declaration(3, behind), None, 0), store)
    held = finished_over_nothing(store, give_up(store, held, lost()))
    last = held.head.tail[-1]
    assert (last.epoch, last.ranges) == (3, {"events": {"0": (37, 37), "1": (60, 60)}})
    assert (last.lost, last.abandoned, last.wheel_digest) == (lost(), True, "c" * 64)
    with pytest.raises(ChainError, match="an overlap"):
        run(chain.declare(LAYOUT, held, declaration(4, {"events": {"0": (30, 40), "1": (60, 80)}}), None, 0), store)
    assert continuity.classify(held.head, behind, "here") == "new"
    pinned = declaration(4, behind)
    assert run(chain.declare(LAYOUT, held, pinned, None, 0), store).head.declared == pinned


@pytest.mark.parametrize(
    ("topic", "partition", "span", "due"),
    [
        ("events", "0", (29, 37), 30),
        ("events", "0", (31, 37), 30),
        ("events", "0", (30, 30), 30),
        ("events", "0", (30, 29), 30),
        ("events", "1", (59, 70), 60),
        ("events", "2", (1, 4), 0),
        ("others", "0", (1, 4), 0),
    ],
)
def test_a_loss_that_does_not_begin_where_the_chain_ends_is_none(
    topic: str, partition: str, span: tuple[int, int], due: int
) -> None:
    store = MemoryStore()
    held = advanced(store, taken(store), 3)
    with pytest.raises(
        ChainError, match=f"of topic {topic} partition {partition} are no loss, the chain ends at {due}"
    ):
        give_up(store, held, lost({topic: {partition: span}}))
    assert run(chain.read(LAYOUT), store) == held.head


@pytest.mark.parametrize(("topic", "named"), [("events", "0"), ("events", "2"), ("others", "0")])
def test_an_epoch_that_begins_elsewhere_than_its_loss_ends_is_refused(topic: str, named: str) -> None:
    """Also where it leaves the partition out; one that the chain does not know begins at 0."""
    store = MemoryStore()
    head = advanced(store, taken(store), 3).head
    kept: Ranges = {"events": {"0": (30, 30), "1": (60, 60)}}
    start = kept.get(topic, {}).pop(named, (0, 0))[0]
    loss = lost({topic: {named: (start, start + 7)}})

    def begun(at: int) -> Ranges:
        return {**kept, topic: {**kept.get(topic, {}), named: (at, at + 9)}}

    continuity.require_adjoining(head, begun(start + 7), "here", loss)
    with pytest.raises(ChainError, match=r"are no loss, the chain ends at \d+ \(here\)"):
        continuity.require_adjoining(head, begun(start + 7), "here", lost({topic: {named: (start + 1, start + 7)}}))
    for wrong in (start, start + 6, start + 8):
        with pytest.raises(ChainError, match=f"partition {named} continues at offset {wrong}, the chain ends at"):
            continuity.require_adjoining(head, begun(wrong), "here", loss)
    with pytest.raises(ChainError, match=f"a missing partition: topic {topic} partition {named}"):
        continuity.require_adjoining(head, kept, "here", loss)


def test_while_an_epoch_is_declared_nothing_is_given_up() -> None:
    store = MemoryStore()
    held = run(chain.declare(LAYOUT, advanced(store, taken(store), 3), declaration(3), None, 0), store)
    with pytest.raises(ChainError, match=r"epoch \d cannot be declared"):
        give_up(store, held, lost())


def test_before_a_repair_that_is_due_nothing_is_given_up_and_behind_it_nothing_is_repaired_once_more() -> None:
    """What the epochs before show, and what they were decided anew by, is theirs alone."""
    store = MemoryStore()
    held = run(chain.declare(LAYOUT, advanced(store, taken(store), 2), declaration(2), None, 0), store)
    shown = {"0": AsShown(rows=1, digest="1" * 32)}
    pinned = run(interventions.finish_as_shown(LAYOUT, held, shown, WHEEL), store)
    held = run(chain.record(LAYOUT, pinned, record_of(declared_in(pinned))), store)
    with pytest.raises(ChainError, match="epoch 3 cannot be declared, epoch 2 has to be repaired first"):
        give_up(store, held, lost())
    due = due_of(held.head)
    held = run(chain.declare(LAYOUT, held, due, None, 0), store)
    held = give_up(store, run(chain.record(LAYOUT, held, record_of(due)), store), lost())
    declared = declared_in(held)
    assert (declared.epoch, declared.shown, declared.anew, declared.repairs) == (4, {}, (), None)
    assert declared.is_abandoned
    assert due_epoch.repair(finished_over_nothing(store, held).head) is None


def test_it_closes_no_window_and_the_time_goes_on_where_it_was() -> None:
    store = MemoryStore()
    held = taken(store)
    clock = Clock(shown={"events": {"0": 70}}, idle={"events": ["1"]})
    pinned = declaration(0).model_copy(update={"clock": clock, "watermark_ms": 60})
    held = run(chain.declare(LAYOUT, held, pinned, None, 0), store)
    shown = record_of(pinned).model_copy(update={"shown_ms": {"events": {"0": 90}}, "max_event_time_ms": 95})
    held = run(chain.record(LAYOUT, held, shown), store)
    declared = declared_in(give_up(store, held, lost({"events": {"0": (10, 12)}})))
    assert (declared.previous_watermark_ms, declared.watermark_ms) == (60, 60)
    assert declared.clock == Clock(shown={"events": {"0": 90}}, idle={"events": ["1"]})
    assert held.head.watermark_ms == 95


def test_its_lineage_is_no_other_ones_so_that_nothing_planned_before_is_gone_on_with() -> None:
    store = MemoryStore()
    held = finished_over_nothing(store, give_up(store, advanced(store, taken(store), 3), lost()))
    assert (held.head.tail[-1].lineage, held.head.tail[-1].batch_id) == ("000009-beef", 0)
    assert held.head.tail[-2].lineage != "000009-beef"


def test_the_json_of_every_other_epoch_does_not_tell_of_it() -> None:
    """Else older versions would not read it, and checksums of older chains would change."""
    store = MemoryStore()
    held = advanced(store, taken(store), 3)
    assert "lost" not in declaration(3).model_dump(mode="json") | held.head.tail[-1].model_dump(mode="json")
    held = finished_over_nothing(store, give_up(store, held, lost()))
    told = json.loads(held.head.encode())["tail"][-1]["lost"]
    assert told == {"offsets": {"events": {"0": [30, 37]}}, "at_ms": 1_750_000_000_000}
    head: Head = decode(held.head.encode(), "here")
    assert head == held.head
    assert lost().count == 7
