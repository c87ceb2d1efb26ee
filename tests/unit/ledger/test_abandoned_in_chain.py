"""An abandoned epoch in the chain: stated, read over by nobody, and what it was to close is left to the next."""

from __future__ import annotations

import json

import pytest

from effectively_once.errors import ChainError, StaleDriverError, VersionError
from effectively_once.ledger import chain, continuity, interventions, pinned_version
from effectively_once.ledger.as_shown import AsShown
from effectively_once.ledger.epoch_record import Counts
from effectively_once.ledger.held import Held
from effectively_once.ledger.objects import run
from effectively_once.ledger.offsets import Ranges
from tests.unit.ledger.memory_store import MemoryStore
from tests.unit.ledger.samples import (
    LAYOUT,
    advanced,
    declaration,
    declared_in,
    finished_over_nothing,
    ranges,
    record_of,
    taken,
)


def _abandoned(store: MemoryStore, epochs: int) -> Held:
    """Record so many epochs, then one that is abandoned."""
    held = advanced(store, taken(store), epochs)
    held = run(chain.declare(LAYOUT, held, declaration(epochs), None, 0), store)
    return finished_over_nothing(store, run(interventions.abandon(LAYOUT, held), store))


@pytest.mark.parametrize("epochs", [0, 1, 3])
def test_what_follows_an_abandoned_epoch_is_declared_as_it_would_have_been(epochs: int) -> None:
    """Its number is taken, its input is not; the watermarks are those that it pinned, so the same windows close."""
    store = MemoryStore()
    lost = declaration(epochs)
    held = _abandoned(store, epochs)
    head = held.head
    assert (head.last_recorded, head.declared, head.tail[-1].is_abandoned) == (epochs, None, True)
    assert continuity.classify(head, lost.ranges, "here") == "new", "Spark plans the same batch again"
    assert head.watermark_ms == lost.watermark_ms
    assert head.tail[-1].watermark_ms == lost.previous_watermark_ms
    with pytest.raises(ChainError, match="a gap"):
        continuity.require_adjoining(head, ranges(epochs + 1), "here")
    again = lost.model_copy(update={"epoch": epochs + 1})
    assert run(chain.declare(LAYOUT, held, again, None, 0), store).head.declared == again


def test_any_version_finishes_an_epoch_over_nothing() -> None:
    store = MemoryStore()
    held = run(chain.declare(LAYOUT, taken(store), declaration(0), None, 0), store)
    pinned_version.same_version(run(interventions.abandon(LAYOUT, held), store).head, "b" * 64, "here")


def test_what_an_epoch_was_to_be_finished_as_is_abandoned_with_it() -> None:
    """It covers nothing: no shard takes what it shows, and nothing is decided under names of its own."""
    store = MemoryStore()
    held = run(chain.declare(LAYOUT, taken(store), declaration(0), None, 0), store)
    held = run(interventions.finish_as_shown(LAYOUT, held, {"0": AsShown(rows=1, digest="1" * 32)}, "a" * 64), store)
    pinned = declared_in(run(interventions.abandon(LAYOUT, held), store))
    assert (pinned.shown, pinned.anew, pinned.decides, pinned.is_abandoned) == ({}, (), None, True)


def test_to_abandon_again_changes_nothing_and_without_an_epoch_is_refused() -> None:
    store = MemoryStore()
    held = taken(store)
    with pytest.raises(ChainError, match="no epoch is declared"):
        run(interventions.abandon(LAYOUT, held), store)
    held = run(chain.declare(LAYOUT, held, declaration(0), None, 0), store)
    held = run(interventions.abandon(LAYOUT, held), store)
    assert run(interventions.abandon(LAYOUT, held), store) == held


def test_a_driver_that_was_replaced_abandons_nothing() -> None:
    store = MemoryStore()
    held = run(chain.declare(LAYOUT, taken(store), declaration(0), None, 0), store)
    taken(store, "second")
    with pytest.raises(StaleDriverError):
        run(interventions.abandon(LAYOUT, held), store)


NOTHING: Ranges = {"t": {"0": (4, 4), "1": (0, 0)}}
"""What an epoch reads over which no record came."""


def _idle(store: MemoryStore) -> Held:
    """Declare an epoch that reads nothing after three others, as a new lineage on an idle topic has it."""
    held = advanced(store, taken(store), 3)
    ends: Ranges = {"events": {name: (end, end) for name, (_, end) in held.head.tail[-1].ranges["events"].items()}}
    return run(chain.declare(LAYOUT, held, declaration(3, ends), None, 0), store)


def test_of_an_epoch_that_reads_nothing_it_is_stated_whether_it_was_abandoned() -> None:
    """In its declaration and in its record; of any other the chain reads as it did before."""
    store = MemoryStore()
    held = _idle(store)
    idle = declared_in(held)
    assert (idle.reads_nothing, idle.abandoned, idle.is_abandoned) == (True, False, False)
    abandoned = interventions.nothing(idle)
    assert (abandoned.ranges, abandoned.abandoned, abandoned.is_abandoned) == (idle.ranges, True, True)
    for each in (idle, abandoned):
        assert json.loads(record_of(each).model_dump_json())["abandoned"] == each.abandoned
    head = run(chain.record(LAYOUT, held, record_of(idle)), store).head
    assert [record.abandoned for record in head.tail] == [None, None, None, False]
    assert "abandoned" not in json.loads(head.tail[0].model_dump_json())


@pytest.mark.parametrize(
    ("pinned", "stated", "expected"),
    [
        (NOTHING, None, True),
        (NOTHING, False, False),
        (NOTHING, True, True),
        ({}, None, False),
        ({"t": {"0": (4, 4), "1": (4, 5)}}, None, False),
        ({"t": {"0": (4, 5)}}, True, False),
    ],
)
def test_where_it_is_not_stated_an_epoch_that_reads_nothing_was_abandoned(
    pinned: Ranges, stated: bool | None, expected: bool
) -> None:
    """As older versions had it; an epoch that reads something, or of a topic without partitions, was not."""
    assert declaration(0, pinned).model_copy(update={"abandoned": stated}).is_abandoned == expected


def test_another_version_does_not_finish_an_epoch_that_merely_reads_nothing() -> None:
    """It closes windows: other code would close them otherwise (R3)."""
    held = _idle(MemoryStore())
    with pytest.raises(VersionError, match="epoch 3 was declared by wheel aaaaaaaaaaaa"):
        pinned_version.same_version(held.head, "b" * 64, "here")


@pytest.mark.parametrize("stated", [False, None], ids=["idle", "by an older version"])
def test_what_an_abandoned_epoch_was_to_close_is_left_to_the_next_though_it_read_nothing(stated: bool | None) -> None:
    store = MemoryStore()
    held = _idle(store)
    lost = declared_in(held).model_copy(update={"abandoned": stated})
    assert lost.watermark_ms != lost.previous_watermark_ms
    held = run(interventions.abandon(LAYOUT, Held(held.head.model_copy(update={"declared": lost}), held.etag)), store)
    given_up = declared_in(held)
    assert (given_up.abandoned, given_up.watermark_ms) == (True, lost.previous_watermark_ms)
    record = record_of(given_up).model_copy(update={"counts": Counts(), "max_event_time_ms": None})
    head = run(chain.record(LAYOUT, held, record), store).head
    assert (head.tail[-1].watermark_ms, head.watermark_ms) == (lost.previous_watermark_ms, lost.watermark_ms)
    assert continuity.classify(head, lost.ranges, "here") == "new", (
        "Spark plans the same batch again, which closes them"
    )


def test_a_batch_without_records_that_is_recorded_is_skipped() -> None:
    store = MemoryStore()
    held = _idle(store)
    idle = declared_in(held)
    assert continuity.classify(held.head, idle.ranges, "here") == "declared"
    assert continuity.classify(run(chain.record(LAYOUT, held, record_of(idle)), store).head, idle.ranges, "here") == (
        "recorded"
    )


def test_a_record_that_calls_its_epoch_abandoned_is_not_recorded_unless_it_was() -> None:
    """A driver of before the abandonment, and a record that does not say, as an older version would make it."""
    store = MemoryStore()
    held = _idle(store)
    idle = declared_in(held)
    unsaid = idle.model_copy(update={"abandoned": None})
    for wrong, pinned in ((unsaid, held), (idle, run(interventions.abandon(LAYOUT, held), store))):
        with pytest.raises(ChainError, match="epoch 3 cannot be recorded"):
            run(chain.record(LAYOUT, pinned, record_of(wrong)), store)
