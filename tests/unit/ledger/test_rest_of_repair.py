"""What the chain pins after an epoch that is finished as it is shown and divided, and after one that is given up."""

from __future__ import annotations

from effectively_once.ledger import chain, due_epoch, interventions
from effectively_once.ledger.as_shown import AsShown
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.ledger.held import Held
from effectively_once.ledger.loss import Loss
from effectively_once.ledger.objects import run
from effectively_once.ledger.rows import Rows
from tests.unit.ledger.memory_store import MemoryStore
from tests.unit.ledger.samples import LAYOUT, WHEEL, advanced, declaration, ranges, record_of, taken

SHOWN = {"0": AsShown(rows=3)}
LEFT = {"left": {"1": ("events", 1, 41)}, "came": {"0": Rows(rows=5), "1": Rows(rows=6)}}


def repaired(store: MemoryStore, **came: object) -> Held:
    """Record two epochs, and one that is finished as a shard shows it."""
    held = advanced(store, taken(store), 2)
    held = run(chain.declare(LAYOUT, held, declaration(2), None, 0), store)
    held = run(interventions.finish_as_shown(LAYOUT, held, SHOWN, WHEEL), store)
    return recorded(store, held, **came)


def recorded(store: MemoryStore, held: Held, **came: object) -> Held:
    pinned = held.head.declared
    assert pinned is not None
    return run(chain.record(LAYOUT, held, record_of(pinned).model_copy(update=came)), store)


def due_of(held: Held) -> Declaration:
    due = due_epoch.repair(held.head)
    assert due is not None
    return due


def test_a_repair_reads_the_ranges_of_the_epoch_before_without_a_word_of_them() -> None:
    """Older versions do not know the field, and find them in that epoch."""
    held = repaired(MemoryStore())
    due = due_of(held)
    assert (due.reads, due.after, due.came) == ({}, {}, {})
    assert due_epoch.input_of(held.head, due) == ranges(2)


def test_a_shard_that_has_taken_what_it_did_not_show_takes_nothing_of_what_another_one_leaves() -> None:
    """Pinned once more as what it shows, it would take the same rows twice."""
    store = MemoryStore()
    held = repaired(store, **LEFT)
    due = due_of(held)
    assert (due.shown, due.came, due.reads) == (SHOWN, {"1": Rows(rows=6)}, ranges(2))
    held = run(chain.declare(LAYOUT, held, due, None, 0), store)
    rest = due_of(recorded(store, held, **LEFT))
    assert (rest.shown, rest.came, rest.reads) == ({}, {"1": Rows(rows=6)}, ranges(2))


def test_what_is_given_up_has_nothing_of_the_epoch_before_but_its_time() -> None:
    """That one may have been any: taken for a rest, it would read what is lost."""
    store = MemoryStore()
    held = advanced(store, taken(store), 3)
    rest = {"reads": ranges(1), "after": {"1": ("events", 1, 41)}, "came": {"1": Rows(rows=6)}, "repairs": 1}
    last = held.head.tail[-1].model_copy(update=rest)
    assert isinstance(last, EpochRecord)
    held = Held(held.head.model_copy(update={"tail": (*held.head.tail[:-1], last)}), held.etag)
    loss = Loss(offsets={"events": {"0": (30, 35)}}, at_ms=1)
    pinned = run(interventions.give_up(LAYOUT, held, loss, lineage="x", wheel_digest=WHEEL), store).head.declared
    assert pinned is not None
    assert (pinned.reads, pinned.after, pinned.came, pinned.repairs) == ({}, {}, {}, None)
    assert pinned.watermark_ms == pinned.previous_watermark_ms == last.watermark_ms
