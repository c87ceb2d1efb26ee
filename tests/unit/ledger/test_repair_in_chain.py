"""What a repair changes in the chain, also of a divided epoch, and that a chain without one is as it always was."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from effectively_once.errors import ChainError, StaleDriverError, VersionError
from effectively_once.ledger import chain, due_epoch, interventions, pinned_version
from effectively_once.ledger.as_shown import AsShown
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.ledger.head import Head, decode
from effectively_once.ledger.held import Held
from effectively_once.ledger.loss import Loss
from effectively_once.ledger.objects import run
from effectively_once.ledger.rows import Rows
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

SHOWN = {"0": AsShown(rows=3, digest="1" * 32, bytes=99, key="counts/shown/0000/000000002-000001.arrow")}
LEFT = {"left": {"1": ("events", 1, 41)}, "came": {"0": Rows(rows=5), "1": Rows(rows=6)}}


def pinned(store: MemoryStore) -> Held:
    """Record two epochs, and pin the third as one that is finished as it is shown."""
    held = run(chain.declare(LAYOUT, advanced(store, taken(store), 2), declaration(2), None, 0), store)
    return run(interventions.finish_as_shown(LAYOUT, held, SHOWN, "d" * 64), store)


def finished(store: MemoryStore, **told: object) -> Held:
    return recorded(store, pinned(store), **told)


def recorded(store: MemoryStore, held: Held, **told: object) -> Held:
    """Record what is declared, with more that its shards told."""
    return run(chain.record(LAYOUT, held, record_of(declared_in(held)).model_copy(update=told)), store)


def repairing(store: MemoryStore, held: Held) -> Held:
    """Declare the epoch that is due."""
    return run(chain.declare(LAYOUT, held, due_of(held.head), None, 0), store)


def test_a_chain_without_repairs_or_divided_epochs_has_no_field_that_older_versions_do_not_know() -> None:
    """They refuse what they do not know, and so a chain with a repair."""
    store = MemoryStore()
    held = run(chain.declare(LAYOUT, advanced(store, taken(store), 2), declaration(2), None, 0), store)
    told = json.loads(held.head.encode())
    for epoch in (told["declared"], *told["tail"]):
        assert not {"shown", "anew", "repairs", "bytes_max", "reads", "after", "came", "left"} & epoch.keys()
    assert decode(held.head.encode(), "") == held.head
    assert {"shown", "anew"} == json.loads(pinned(MemoryStore()).head.encode())["declared"].keys() - told[
        "declared"
    ].keys()


def test_pins_are_read_back_with_the_record_that_they_became_and_from_a_segment() -> None:
    store = MemoryStore()
    head = decode(recorded(store, repairing(store, finished(store))).head.encode(), "")
    assert [record.shown for record in head.tail] == [{}, {}, SHOWN, SHOWN]
    assert [record.repairs for record in head.tail] == [None, None, None, 2]
    line = head.tail[2].model_dump_json(by_alias=True)
    assert EpochRecord.model_validate_json(line) == head.tail[2]
    first = head.tail[0].model_copy(update={"repairs": 0})
    assert EpochRecord.model_validate_json(first.model_dump_json(by_alias=True)).repairs == 0


def test_a_repair_belongs_to_the_version_that_finished_the_epoch() -> None:
    head = finished(MemoryStore()).head
    pinned_version.same_version(head, "d" * 64, "here")
    with pytest.raises(VersionError, match="epoch 3 was declared by wheel dddddddddddd, this is wheel aaaaaaaaaaaa"):
        pinned_version.same_version(head, WHEEL, "here")


def test_an_epoch_is_pinned_anew_with_what_it_shows_and_everything_else_kept() -> None:
    head = pinned(MemoryStore()).head
    assert head.declared == declaration(2).model_copy(
        update={"shown": SHOWN, "anew": (head.generation,), "wheel_digest": "d" * 64}
    )


def test_an_epoch_of_which_nothing_is_shown_is_pinned_to_be_decided_anew_and_again() -> None:
    store = MemoryStore()
    held = run(chain.declare(LAYOUT, advanced(store, taken(store), 2), declaration(2), None, 0), store)
    for generation in (2, 3):
        held = run(interventions.finish_as_shown(LAYOUT, taken(store, f"operator {generation}"), {}, WHEEL), store)
        assert declared_in(held).decides == generation
    pinned = declared_in(held)
    assert pinned == declaration(2).model_copy(update={"anew": (2, 3), "wheel_digest": WHEEL})
    assert [pinned.find_anew(generation) for generation in range(1, 5)] == [None, 2, 3, 3]
    assert due_epoch.repair(recorded(store, held).head) is None


def test_what_is_decided_anew_has_a_name_of_its_own() -> None:
    assert LAYOUT.delta("ids", 2, 0, 3) == LAYOUT.delta("ids", 2, 0).replace(".arrow", "-r000003.arrow")
    assert LAYOUT.step_record("rate", 2, 0, 3) == LAYOUT.step_record("rate", 2, 0).replace(".arrow", "-r000003.arrow")


def test_what_comes_next_consumes_nothing_and_has_the_watermark_of_the_epoch_that_it_repairs() -> None:
    store = MemoryStore()
    held = finished(store)
    due = due_of(held.head)
    ends = {topic: {p: (end, end) for p, (_, end) in parts.items()} for topic, parts in ranges(2).items()}
    assert (due.epoch, due.repairs, due.ranges, due.shown) == (3, 2, ends, SHOWN)
    assert due.watermark_ms == due.previous_watermark_ms == declaration(2).watermark_ms
    assert (due.lineage, due.batch_id, due.wheel_digest) == ("000001-abcd", 2, "d" * 64)
    assert (due.empty, due.is_abandoned) == (True, False)
    with pytest.raises(ChainError, match="epoch 3 cannot be declared, epoch 2 has to be repaired first"):
        run(chain.declare(LAYOUT, held, declaration(3), None, 0), store)
    held = repairing(store, held)
    assert due_epoch.repair(held.head) is None
    held = recorded(store, held)
    assert due_epoch.repair(held.head) is None
    assert run(chain.declare(LAYOUT, held, declaration(4, ranges(3)), None, 0), store).head.declared is not None


def test_the_watermark_after_a_repair_is_the_largest_time_of_both_epochs() -> None:
    store = MemoryStore()
    held = repairing(store, finished(store))
    for latest, expected in ((None, 2000), (1500, 2000), (2500, 2500)):
        record = record_of(declared_in(held)).model_copy(update={"max_event_time_ms": latest})
        assert chain.record_epoch(held.head, record).watermark_ms == expected


def test_an_epoch_that_could_repair_nothing_is_refused() -> None:
    store = MemoryStore()
    held = advanced(store, taken(store), 2)
    with pytest.raises(ChainError, match="epoch 2 cannot be declared, there is nothing that it could repair"):
        run(chain.declare(LAYOUT, held, declaration(2).model_copy(update={"repairs": 1}), None, 0), store)


def test_nothing_is_pinned_where_no_epoch_is_declared_or_by_a_stale_operator() -> None:
    store = MemoryStore()
    held = advanced(store, taken(store), 2)
    with pytest.raises(ChainError, match="no epoch is declared that could be finished as it is shown"):
        run(interventions.finish_as_shown(LAYOUT, held, SHOWN, WHEEL), store)
    held = run(chain.declare(LAYOUT, held, declaration(2), None, 0), store)
    taken(store, "second")
    with pytest.raises(StaleDriverError, match="replaced by second"):
        run(interventions.finish_as_shown(LAYOUT, held, SHOWN, WHEEL), store)


def test_unknown_fields_of_a_pin_are_refused() -> None:
    told = json.loads(pinned(MemoryStore()).head.encode())
    told["declared"]["shown"]["0"]["more"] = 1
    with pytest.raises(ValidationError):
        Head.model_validate(told)


def test_a_repair_reads_the_ranges_of_the_epoch_before_without_a_word_of_them() -> None:
    """Older versions do not know the field, and find them in that epoch."""
    head = finished(MemoryStore()).head
    due = due_of(head)
    assert (due.reads, due.after, due.came) == ({}, {}, {})
    assert due_epoch.input_of(head, due) == ranges(2)


def test_a_shard_that_has_taken_what_it_did_not_show_takes_nothing_of_what_another_one_leaves() -> None:
    """Pinned once more as what it shows, it would take the same rows twice."""
    store = MemoryStore()
    held = finished(store, **LEFT)
    due = due_of(held.head)
    assert (due.shown, due.came, due.reads) == (SHOWN, {"1": Rows(rows=6)}, ranges(2))
    rest = due_of(recorded(store, repairing(store, held), **LEFT).head)
    assert (rest.shown, rest.came, rest.reads) == ({}, {"1": Rows(rows=6)}, ranges(2))


def test_what_is_given_up_has_nothing_of_the_epoch_before_but_its_time() -> None:
    """That one may have been any: taken for a rest, it would read what is lost."""
    store = MemoryStore()
    held = advanced(store, taken(store), 3)
    rest = {"reads": ranges(1), "after": {"1": ("events", 1, 41)}, "came": {"1": Rows(rows=6)}, "repairs": 1}
    last = held.head.tail[-1].model_copy(update=rest)
    held = Held(held.head.model_copy(update={"tail": (*held.head.tail[:-1], last)}), held.etag)
    loss = Loss(offsets={"events": {"0": (30, 35)}}, at_ms=1)
    given_up = declared_in(run(interventions.give_up(LAYOUT, held, loss, lineage="x", wheel_digest=WHEEL), store))
    assert (given_up.reads, given_up.after, given_up.came, given_up.repairs) == ({}, {}, {}, None)
    assert given_up.is_abandoned
    assert given_up.watermark_ms == given_up.previous_watermark_ms == last.watermark_ms
