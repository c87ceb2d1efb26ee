"""What a repair changes in the chain, and that a chain without one is written as it always was."""

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
from effectively_once.ledger.objects import run
from tests.unit.ledger.memory_store import MemoryStore
from tests.unit.ledger.samples import LAYOUT, WHEEL, advanced, declaration, due_of, ranges, record_of, taken

SHOWN = {"0": AsShown(rows=3, digest="1" * 32, bytes=99, key="counts/shown/0000/000000002-000001.arrow")}


def pinned(store: MemoryStore, epochs: int = 2) -> Held:
    """Record so many epochs, and pin the one after as one that is finished as it is shown."""
    held = advanced(store, taken(store), epochs)
    held = run(chain.declare(LAYOUT, held, declaration(epochs), None, 0), store)
    return run(interventions.finish_as_shown(LAYOUT, held, SHOWN, "d" * 64), store)


def finished(store: MemoryStore, epochs: int = 2) -> Held:
    held = pinned(store, epochs)
    assert held.head.declared is not None
    return run(chain.record(LAYOUT, held, record_of(held.head.declared)), store)


def test_a_chain_without_repairs_has_no_field_that_older_versions_do_not_know() -> None:
    """They refuse what they do not know, and so a chain with a repair."""
    store = MemoryStore()
    held = run(chain.declare(LAYOUT, advanced(store, taken(store), 2), declaration(2), None, 0), store)
    told = json.loads(held.head.encode())
    for epoch in (told["declared"], *told["tail"]):
        assert not {"shown", "anew", "repairs"} & epoch.keys()
    assert decode(held.head.encode(), "") == held.head
    assert {"shown", "anew"} == json.loads(pinned(MemoryStore()).head.encode())["declared"].keys() - told[
        "declared"
    ].keys()


def test_pins_are_read_back_with_the_record_that_they_became_and_from_a_segment() -> None:
    store = MemoryStore()
    held = finished(store)
    due = due_of(held.head)
    held = run(chain.declare(LAYOUT, held, due, None, 0), store)
    held = run(chain.record(LAYOUT, held, record_of(due)), store)
    head = decode(held.head.encode(), "")
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
        assert held.head.declared is not None
        assert held.head.declared.decides == generation
    pinned = held.head.declared
    assert pinned == declaration(2).model_copy(update={"anew": (2, 3), "wheel_digest": WHEEL})
    assert [pinned.find_anew(generation) for generation in range(1, 5)] == [None, 2, 3, 3]
    held = run(chain.record(LAYOUT, held, record_of(pinned)), store)
    assert due_epoch.repair(held.head) is None


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
    held = run(chain.declare(LAYOUT, held, due, None, 0), store)
    assert due_epoch.repair(held.head) is None
    held = run(chain.record(LAYOUT, held, record_of(due)), store)
    assert due_epoch.repair(held.head) is None
    assert run(chain.declare(LAYOUT, held, declaration(4, ranges(3)), None, 0), store).head.declared is not None


def test_the_watermark_after_a_repair_is_the_largest_time_of_both_epochs() -> None:
    store = MemoryStore()
    held = finished(store)
    due = due_of(held.head)
    held = run(chain.declare(LAYOUT, held, due, None, 0), store)
    for latest, expected in ((None, 2000), (1500, 2000), (2500, 2500)):
        record = record_of(due).model_copy(update={"max_event_time_ms": latest})
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


def test_an_epoch_that_repairs_another_is_not_abandoned() -> None:
    store = MemoryStore()
    held = finished(store)
    due = due_of(held.head)
    held = run(chain.declare(LAYOUT, held, due, None, 0), store)
    before = held.head
    with pytest.raises(ChainError, match="epoch 3 repairs epoch 2, whose missing rows would be lost"):
        run(interventions.abandon(LAYOUT, held), store)
    assert run(chain.read(LAYOUT), store) == before


def test_unknown_fields_of_a_pin_are_refused() -> None:
    told = json.loads(pinned(MemoryStore()).head.encode())
    told["declared"]["shown"]["0"]["more"] = 1
    with pytest.raises(ValidationError):
        Head.model_validate(told)
