"""What one head says of an object: named, over for good, or not to be told yet (R9)."""

from __future__ import annotations

import pytest

from effectively_once.errors import ChainError
from effectively_once.ledger import chain, interventions
from effectively_once.ledger.as_shown import AsShown
from effectively_once.ledger.delta import Delta, Span
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.ledger.held import Held
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import run
from effectively_once.operate.retention.leftovers import Refused, Sort, Staged, Unknown, View
from tests.unit.ledger.memory_store import MemoryStore
from tests.unit.ledger.samples import LAYOUT, advanced, declaration, due_of, record_of, taken

OVER = Sort.DELTAS


def grown(store: MemoryStore, held: Held, *records: EpochRecord, floor: int = 0) -> Held:
    """Declare, publish and record epochs as given."""
    for record in records:
        held = run(chain.declare(LAYOUT, held, declaration(record.epoch), None, floor), store)
        held = run(chain.record(LAYOUT, held, record), store)
    return held


def merging(epoch: int, first: int, last: int) -> EpochRecord:
    """Return the record of an epoch in which deltas of `ids`, shard 0, were merged."""
    rows = Span(first=first, last=last, rows=30, digest="0" * 32)
    return record_of(declaration(epoch)).model_copy(update={"merged": {"ids": {"0": rows}}})


def plain(epoch: int) -> EpochRecord:
    return record_of(declaration(epoch))


def view(store: MemoryStore) -> View:
    return View.of(LAYOUT, store)


def delta(epoch: int) -> str:
    return LAYOUT.delta("ids", epoch, 0)


def span(first: int, last: int) -> str:
    return LAYOUT.span("ids", first, last, 0)


@pytest.fixture
def store() -> MemoryStore:
    """Hold a chain of epochs 0 to 5 with floor 2; epoch 6 is declared."""
    made = MemoryStore()
    held = advanced(made, taken(made), 6, floor=2)
    run(chain.declare(LAYOUT, held, declaration(6), None, 2), made)
    return made


def test_a_delta_is_over_when_its_epoch_is_recorded_and_does_not_name_it_any_more(store: MemoryStore) -> None:
    told = [view(store).judge(delta(epoch)) for epoch in range(8)]
    assert told == [OVER, OVER, None, None, None, None, None, None], "6 is declared, 7 is what a driver may come to"
    assert view(store).judge(LAYOUT.delta("ids", 4, 1)) is OVER, "no row of epoch 4 went to shard 1"
    assert view(store).judge(LAYOUT.delta("gone", 4, 0)) is OVER
    assert view(store).judge(LAYOUT.delta("ids", 4, 0, 1)) is OVER, "no repair decided epoch 4 anew"
    assert view(store).judge(LAYOUT.delta("ids", 6, 0, 1)) is None


def test_a_delta_in_its_record_has_no_object() -> None:
    store = MemoryStore()
    inline = plain(0).model_copy(update={"deltas": {"ids": {"0": Delta(rows=1, inline='{"id":["a"]}')}}})
    grown(store, taken(store), inline)
    assert view(store).judge(delta(0)) is OVER


def test_merged_deltas_are_over_when_the_epoch_that_merged_them_is_recorded() -> None:
    store = MemoryStore()
    held = grown(store, taken(store), plain(0), plain(1), plain(2))
    held = run(chain.declare(LAYOUT, held, declaration(3), None, 0), store)
    assert [view(store).judge(delta(epoch)) for epoch in (0, 1)] == [None, None]
    run(chain.record(LAYOUT, held, merging(3, 0, 1)), store)
    assert [view(store).judge(delta(epoch)) for epoch in range(4)] == [OVER, OVER, None, None]
    assert view(store).judge(span(0, 1)) is None


def test_a_span_that_no_record_names_may_be_that_of_the_declared_epoch_unless_it_is_below_the_floor(
    store: MemoryStore,
) -> None:
    """Its record would name an object that is not there: the chain could not be read any more."""
    assert [view(store).judge(each) for each in (span(2, 3), span(1, 2), span(0, 1))] == [None, None, OVER]


def test_a_span_is_over_when_a_longer_one_stands_for_it() -> None:
    store = MemoryStore()
    shorter = grown(store, taken(store), plain(0), plain(1), merging(2, 0, 1), plain(3))
    assert view(store).judge(span(0, 1)) is None
    grown(store, shorter, merging(4, 0, 3))
    assert [view(store).judge(name) for name in (span(0, 1), delta(2), delta(3))] == [OVER] * 3
    assert [view(store).judge(name) for name in (span(0, 3), delta(4))] == [None] * 2


def test_what_a_step_recorded_is_over_when_its_epoch_is_recorded(store: MemoryStore) -> None:
    told = [view(store).judge(LAYOUT.step_record("rate", epoch, 0)) for epoch in (0, 5, 6, 7)]
    assert told == [Sort.RECORDED, Sort.RECORDED, None, None]


def test_of_refused_records_the_topic_of_dead_letters_tells(store: MemoryStore) -> None:
    named = [view(store).judge(LAYOUT.letter(epoch, "0f" * 32)) for epoch in (0, 5, 6)]
    assert named == [Refused(), Refused(), None], "that of the declared epoch may be named yet"
    assert view(store).judge(f"{LAYOUT.letters}000000001") == Unknown()


def test_of_files_the_manifest_of_a_recorded_epoch_tells(store: MemoryStore) -> None:
    told = [view(store).judge(LAYOUT.staged_file("totals", epoch, "0af")) for epoch in (5, 6)]
    assert told == [Staged("totals", 5), None]


def test_a_checkpoint_is_over_when_a_newer_driver_took_over_and_no_epoch_in_hand_is_of_it() -> None:
    store = MemoryStore()

    def sort(*lineages: str) -> list[object]:
        return [view(store).judge(f"{LAYOUT.checkpoint(lineage)}/offsets/0") for lineage in lineages]

    held = taken(store)
    assert sort("000001-abcd", "000000-cdef", "000002-cdef") == [None, Sort.CHECKPOINTS, None]
    held = advanced(store, held, 2)
    run(chain.take_over(LAYOUT, "second", {}), store)
    assert sort("000001-abcd", "000001-cdef", "000002-begun", "000003-later") == [None, Sort.CHECKPOINTS, None, None]
    held = run(chain.take_over(LAYOUT, "third", {}), store)
    other = declaration(2).model_copy(update={"lineage": "000002-begun"})
    run(chain.declare(LAYOUT, held, other, None, 0), store)
    assert sort("000001-abcd", "000002-begun", "000002-idle") == [None, None, Sort.CHECKPOINTS]


def after_repair(store: MemoryStore, held: Held, first: int, last: int) -> Held:
    """Record further epochs; a repair consumed nothing, so each reads on where the one before it ended."""
    for epoch in range(first, last + 1):
        pinned = declaration(epoch).model_copy(update={"ranges": declaration(epoch - 1).ranges})
        held = run(chain.declare(LAYOUT, held, pinned, None, 3), store)
        held = run(chain.record(LAYOUT, held, record_of(pinned)), store)
    return held


def test_what_a_repair_pinned_is_over_when_it_is_recorded_below_the_floor_and_out_of_head() -> None:
    store = MemoryStore()
    key, other = LAYOUT.shown_rows(2, 0, 1), LAYOUT.shown_rows(2, 0, 7)
    pinned = {"0": AsShown(rows=3, digest="1" * 32, bytes=99, key=key)}

    def sort(held: Held) -> list[object]:
        head = held.head
        assert View.of(LAYOUT, store).needs(key) == any(of.shown for of in (head.declared, *head.tail) if of)
        return [view(store).judge(name) for name in (key, other)]

    held = advanced(store, taken(store), 2)
    held = run(chain.declare(LAYOUT, held, declaration(2), None, 0), store)
    assert sort(held) == [None, None], "it is written before it is pinned"
    held = run(interventions.finish_as_shown(LAYOUT, held, pinned, "d" * 64), store)
    assert sort(held) == [None, None]
    assert held.head.declared is not None
    held = run(chain.record(LAYOUT, held, record_of(held.head.declared)), store)
    assert sort(held) == [None, None], "its repair is due"
    due = due_of(held.head)
    held = run(chain.declare(LAYOUT, held, due, None, 3), store)
    assert sort(held) == [None, None], "the floor has passed it, and the declared epoch reads it"
    held = run(chain.record(LAYOUT, held, record_of(due)), store)
    assert sort(held) == [None, Sort.SHOWN], "an earlier try of the command, which pinned nothing"
    held = after_repair(store, held, 4, 5)
    assert sort(held) == [None, Sort.SHOWN], "head still names it"
    held = after_repair(store, held, 6, 149)
    assert not any(record.shown for record in held.head.tail), "the tail is not long enough for this test"
    assert sort(held) == [Sort.SHOWN, Sort.SHOWN]


def test_what_a_repair_pinned_stays_while_the_floor_is_at_its_epoch() -> None:
    """What is not below the floor may be read by whoever goes on with an older head (R9)."""
    store = MemoryStore()
    held = advanced(store, taken(store), 150, floor=100)
    assert held.head.floor == 100
    found = [view(store).judge(LAYOUT.shown_rows(epoch, 0, 1)) for epoch in (99, 100, 149, 150)]
    assert found == [Sort.SHOWN, None, None, None]
    high = held.head.model_copy(update={"floor": 150, "sequence": held.head.sequence + 1})
    store.objects[LAYOUT.head] = high.encode()
    found = [view(store).judge(LAYOUT.shown_rows(epoch, 0, 1)) for epoch in (148, 149, 150)]
    assert found == [Sort.SHOWN, None, None], "the last epoch may be one that is to be repaired"


@pytest.mark.parametrize(
    "name",
    [
        "head.json",
        "control.json",
        "segments/000000000-000000031.json",
        "totals/manifests/000000001.json",
        "deltas/ids/0000/000000001.arrow.tmp",
        "deltas/ids/000000001.arrow",
        "deltas/ids/0000/1.arrow",
        "shown/0000/000000001.arrow",
        "checkpoints/stray",
        "checkpoints/mine/offsets/0",
        "totals/data/report.parquet",
        "recorded/rate/000000001.arrow",
    ],
)
def test_what_has_another_name_is_not_judged(store: MemoryStore, name: str) -> None:
    assert view(store).judge(f"{LAYOUT.pipeline}/{name}") == Unknown()
    assert view(store).judge(Layout("other").delta("ids", 0, 0)) == Unknown(), "another pipeline's"


def test_leftovers_are_looked_for_where_deltas_outputs_records_and_checkpoints_are(store: MemoryStore) -> None:
    assert view(store).prefixes == [
        "counts/deltas/",
        "counts/recorded/",
        "counts/shown/",
        "counts/checkpoints/",
        "counts/accepted/data/",
        "counts/dead_letter/records/",
    ]


def test_a_later_head_of_the_same_chain_is_told_from_another_chain() -> None:
    store, other = MemoryStore(), MemoryStore()
    held = taken(store)
    views = [view(store)]
    for _ in range(4):
        held = advanced(store, held, 60, floor=views[-1].head.last_recorded + 1)
        views.append(view(store))
    assert all(one.before(then) for number, one in enumerate(views) for then in views[number:])
    assert not any(then.before(one) for number, one in enumerate(views) for then in views[number + 1 :])
    advanced(other, taken(other, "other"), 1)
    assert not views[1].before(view(other)), "begun anew"
    last = views[-1].head
    for back in ({"sequence": last.sequence - 1}, {"sequence": last.sequence + 1, "floor": last.floor - 1}):
        store.objects[LAYOUT.head] = last.model_copy(update=back).encode()
        assert not views[-1].before(view(store)), "an older head of the same epoch"
    older = views[2].head
    changed = {"sequence": 10_000, "tail": older.tail[:-1], "last_recorded": older.last_recorded - 1}
    store.objects[LAYOUT.head] = older.model_copy(update=changed).encode()
    assert not views[2].before(view(store)), "an older backup"


def test_without_its_records_nothing_is_told(store: MemoryStore) -> None:
    held = advanced(store, run(chain.take_over(LAYOUT, "second", {}), store), 0)
    published = record_of(declaration(6))
    held = run(chain.record(LAYOUT, held, published), store)
    segment = advanced(store, held, 70).head.segments[0]
    del store.objects[LAYOUT.segment(*segment)]
    with pytest.raises(ChainError, match="a segment of the chain is missing"):
        view(store)
