"""Compacting manifests while drivers publish: readers see the same rows before, during and after it (R9)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, islice

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effectively_once.errors import ChainError, SinkError
from effectively_once.ledger.head import Head
from effectively_once.ledger.objects import Delete, Put, Request, Step
from effectively_once.operate.retention.compaction import (
    Compactable,
    Compaction,
    Group,
    compact_group,
    delete_beside,
    find_groups,
    write_span,
)
from effectively_once.sinks import manifest_span
from effectively_once.sinks.manifest import ManifestSink
from effectively_once.sinks.publish import Published
from effectively_once.sinks.reader import PublishedRows
from tests.depth import examples
from tests.unit.library import backups
from tests.unit.library.backups import head_of
from tests.unit.library.ledger_driver import GLOBAL_SCHEMA, LedgerDriver, global_counts
from tests.unit.library.names import GLOBAL_COUNTS
from tests.unit.library.test_reader import counts_of, rewrite, rows_of
from tests.unit.library.test_retention import LAYOUT, WIDE, AgedStore, Drivers, driver, tidied

EPOCHS, SPAN = 70, 4


@pytest.fixture(autouse=True, scope="module")
def _few_epochs() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_span, "EPOCHS", SPAN)
        yield


@pytest.fixture
def store() -> AgedStore:
    """Hold a pipeline that was stopped in order, with a segment."""
    return stored(EPOCHS)


def stored(epochs: int) -> AgedStore:
    made = AgedStore()
    made.objects.update(backups.stored(epochs).objects)
    return made


def compaction(store: AgedStore, say: Callable[[str], object] = lambda _: None) -> Compaction:
    return Compaction(store, LAYOUT, [GLOBAL_COUNTS], say)


def compacted(store: AgedStore) -> Compactable:
    work = compaction(store)
    there = work.find()
    work.carry_out(there)
    return there


def manifests(store: AgedStore) -> list[str]:
    return [name.rpartition("/")[2].removesuffix(".json") for name in store.names(f"clicks/{GLOBAL_COUNTS}/manifests/")]


def first_above(store: AgedStore) -> int:
    """The first epoch that is in no span once everything is compacted."""
    return head_of(store).floor // SPAN * SPAN


def test_manifests_below_the_floor_become_spans_and_every_reader_sees_the_same_rows(store: AgedStore) -> None:
    before, others = rows_of(store), {name: body for name, body in store.objects.items() if "/manifests/" not in name}
    end = first_above(store)
    assert 60 < end < EPOCHS - 1
    compacted(store)
    spans = [f"{first:09d}-{first + SPAN - 1:09d}" for first in range(0, end, SPAN)]
    assert manifests(store) == spans + [f"{epoch:09d}" for epoch in range(end, EPOCHS)]
    assert {name: body for name, body in store.objects.items() if "/manifests/" not in name} == others
    after = rows_of(store)
    assert counts_of(before) == counts_of(after) == global_counts(EPOCHS)
    assert (before.first, before.last, before.manifests) == (after.first, after.last, after.manifests)
    assert counts_of(rows_of(store, since=9)) == [row for row in global_counts(EPOCHS) if row[0] >= 9]
    sink = ManifestSink(store, LAYOUT, GLOBAL_COUNTS)
    assert [sink.manifest(epoch) for epoch in range(EPOCHS)] == list(before.manifests.values())
    assert [(epoch, *row.values()) for epoch, _, row in sink.rows(EPOCHS - 1)] == global_counts(EPOCHS)


def test_a_span_is_one_request_for_a_reader(store: AgedStore) -> None:
    compacted(store)
    store.requests.clear()
    rows_of(store)
    asked = [request for request in store.requests if "/manifests/" in request.key]
    above = EPOCHS - first_above(store)
    assert len(asked) <= first_above(store) // SPAN + above + 2 * (above // SPAN + 1)


def test_what_is_there_to_do_is_told_first_and_nothing_is_changed(store: AgedStore) -> None:
    before, floor, end = dict(store.objects), head_of(store).floor, first_above(store)
    work = compaction(store)
    assert list(work.find().lines()) == [
        f"chain: epoch {EPOCHS - 1} is the last recorded, floor {floor}",
        f"global_counts: {end // SPAN} spans to write, {end} manifests to delete",
    ]
    assert store.objects == before
    assert not [request for request in store.requests if isinstance(request, Put | Delete)]
    work.carry_out(work.find())
    assert list(work.find().lines()) == [f"chain: epoch {EPOCHS - 1} is the last recorded, floor {floor}"]


def test_the_next_compaction_does_what_has_been_added(store: AgedStore) -> None:
    compacted(store)
    assert not compacted(store).groups
    LedgerDriver.started(store, LAYOUT, "second").run(20)
    assert len(compacted(store).groups) == 5
    assert counts_of(rows_of(store)) == global_counts(EPOCHS + 20)


@pytest.mark.parametrize("first", range(0, 21, 7))
@pytest.mark.thinned(3)
def test_whatever_of_it_is_interrupted_another_one_finishes_it_and_readers_see_nothing(
    first: int, store: AgedStore
) -> None:
    """Broken off after some of its changes."""
    whole = AgedStore()
    whole.objects = dict(store.objects)
    changes = count()
    whole.before = lambda request: next(changes) if isinstance(request, Put | Delete) else None
    compacted(whole)
    for last in range(first, next(changes), 21):
        broken, left = AgedStore(), iter(range(last))
        broken.objects = dict(store.objects)

        def interrupt(request: Request, left: Iterator[int] = left) -> None:
            if isinstance(request, Put | Delete) and next(left, None) is None:
                raise ConnectionError("broken off")

        broken.before = interrupt
        with pytest.raises(ConnectionError):
            compacted(broken)
        broken.mend()
        assert counts_of(rows_of(broken)) == global_counts(EPOCHS)
        compacted(broken)
        assert broken.objects == whole.objects


def test_epochs_that_are_not_all_there_stay_as_they_are(store: AgedStore) -> None:
    """As after a restore of a backup from the floor on: what is missing cannot be told from what was purged."""
    for epoch in (0, 1, 2):
        del store.objects[LAYOUT.manifest(GLOBAL_COUNTS, epoch)]
    there = compacted(store)
    assert there.incomplete == [Group(GLOBAL_COUNTS, (0, 3), spanned=False, manifests=1)]
    assert "global_counts: epochs 0 to 3 have 1 manifests, so they stay as they are" in there.lines()
    assert manifests(store)[0] == "000000003"
    assert rows_of(store).first == 3


def test_a_manifest_that_is_lost_before_its_span_is_made_takes_no_others_with_it(store: AgedStore) -> None:
    work = compaction(store)
    there = work.find()
    del store.objects[LAYOUT.manifest(GLOBAL_COUNTS, 5)]
    work.carry_out(there)
    left = ["000000000-000000003", "000000004", "000000006", "000000007", "000000008-000000011"]
    assert manifests(store)[:5] == left


@pytest.mark.parametrize(
    ("epoch", "change"),
    [(9, {"digest": "0" * 32}), (9, {"rows": 99}), (EPOCHS - 12, {"rows": 99}), (9, {"epoch": 8})],
)
def test_a_manifest_that_is_not_the_recorded_one_is_named_and_none_beside_it_goes(
    store: AgedStore, epoch: int, change: dict[str, object]
) -> None:
    """Recorded in a segment, or in head."""
    rewrite(store, epoch, **change)
    kept = {LAYOUT.manifest(GLOBAL_COUNTS, one) for one in range(epoch // SPAN * SPAN, epoch // SPAN * SPAN + SPAN)}
    with pytest.raises(SinkError, match=f"{epoch:09d}.*Restore it"):
        compacted(store)
    assert kept <= set(store.objects)


def test_nothing_of_a_chain_that_was_replaced_meanwhile_is_deleted(store: AgedStore) -> None:
    older = store.objects[LAYOUT.head]
    LedgerDriver.started(store, LAYOUT, "second").run(5)
    work = compaction(store)
    there = work.find()
    store.objects[LAYOUT.head] = older
    kept = {name for name in store.objects if "/manifests/" in name}
    with pytest.raises(ChainError, match=r"not what it was .*Delete clicks/global_counts/manifests/0+-0+3.json"):
        work.carry_out(there)
    assert kept <= set(store.objects)


def test_of_other_names_nothing_is_thought() -> None:
    folder = "clicks/global_counts/manifests/"
    names = [
        f"{folder}report.json",
        f"{folder}000000001.json.tmp",
        "clicks/other/manifests/000000001.json",
        f"{folder}000000000-000000999.json",
    ]
    head = Head(pipeline="clicks", generation=1, owner="a", settings={}, last_recorded=99, floor=90)
    assert find_groups(names, LAYOUT, GLOBAL_COUNTS, head) == []


def test_without_a_head_nothing_is_compacted(store: AgedStore) -> None:
    del store.objects[LAYOUT.head]
    with pytest.raises(ChainError, match="head is gone"):
        compacted(store)


def stepped(store: AgedStore) -> Iterator[None]:
    """Compact again and again, a request at a time."""
    while True:
        head = head_of(store)
        names = list(store.names(f"clicks/{GLOBAL_COUNTS}/manifests/"))
        yield
        for group in find_groups(names, LAYOUT, GLOBAL_COUNTS, head):
            for step in (write_span, delete_beside):
                how = (head, group.bounds) if step is write_span else (group.bounds,)
                yield from _one_by_one(step(LAYOUT, GLOBAL_COUNTS, *how), store)


def _one_by_one(step: Step[object], store: AgedStore) -> Iterator[None]:
    try:
        request = next(step)
        while True:
            answer = store.answer(request)
            yield
            request = step.send(answer)
    except StopIteration:
        return


@pytest.mark.deep
@settings(max_examples=examples(15))
@given(st.lists(st.integers(0, 12), max_size=400), st.integers(100, 300), st.booleans())
def test_readers_see_the_same_rows_whatever_drivers_and_compactions_do_between_their_requests(
    turns: list[int], first_steps: int, old_head: bool
) -> None:
    """To 7: steps of the driver. 8: another takes over. 9: a step of one that was replaced. Above: a compaction's."""
    store = AgedStore()
    drivers = Drivers(store, [turn for turn in turns if turn < 10])
    drivers.advance(first_steps)
    head, work = head_of(store), stepped(store)

    def meanwhile(_: Request) -> None:
        for turn in islice(rest, 4):
            if turn < 10:
                drivers.turn()
            else:
                next(work)

    rest = iter(turns)
    store.before = meanwhile
    seen = []
    for _ in range(3):
        rows = PublishedRows(lambda: store, LAYOUT, GLOBAL_COUNTS, head if old_head else head_of(store))
        assert list(rows.manifests) == list(range(rows.last + 1))
        seen.append(rows)
    store.mend()
    drivers.advance(20)
    after = driver(store, "after")
    after.run(10)
    expected = global_counts(after.held.head.last_recorded + 1, WIDE)
    for rows in seen:
        assert counts_of(rows) == [row for row in expected if row[0] <= rows.last]
    compacted(store)
    assert counts_of(rows_of(store)) == expected
    tidied(store, age_s=0)
    assert counts_of(rows_of(store)) == expected
    assert [name for name in manifests(store) if "-" not in name] == [
        f"{epoch:09d}" for epoch in range(first_above(store), after.held.head.last_recorded + 1)
    ]


def test_a_driver_that_was_replaced_and_publishes_into_a_span_is_refused_or_shows_nothing(store: AgedStore) -> None:
    epoch, table = next((epoch, table) for epoch, table in rows_of(store))
    compacted(store)
    before = dict(store.objects)
    sink = ManifestSink(store, LAYOUT, GLOBAL_COUNTS)
    assert sink.publish(epoch, 1, table)[1] is Published.BEFORE
    other = pa.table({"window_start_ms": [1], "count": [99]}, GLOBAL_SCHEMA)
    with pytest.raises(SinkError, match=f"epoch {epoch + 1} is published with digest"):
        sink.publish(epoch + 1, 1, other)
    assert {epoch, epoch + 1} == {int(name) for name in manifests(store)[-99:] if name.isdigit() and int(name) < 40}
    assert counts_of(rows_of(store)) == global_counts(EPOCHS)
    tidied(store, age_s=0)
    assert counts_of(rows_of(store)) == global_counts(EPOCHS), "its files went, not those that were published"
    compacted(store)
    assert store.objects == before


# Backups


def taken(source: AgedStore, **how: bool) -> AgedStore:
    """Back up, and restore into an empty store."""
    again = AgedStore()
    again.objects.update(backups.restored(backups.taken(source, None, **how)).objects)
    return again


def goes_on(store: AgedStore, epochs: int) -> None:
    LedgerDriver.started(store, LAYOUT, "after").run(epochs)
    rows = rows_of(store)
    assert counts_of(rows) == [row for row in global_counts(rows.last + 1) if row[0] >= rows.first]


def test_a_backup_holds_spans_and_what_is_restored_goes_on(store: AgedStore) -> None:
    compacted(store)
    again = taken(store)
    assert manifests(again) == manifests(store)
    assert counts_of(rows_of(again)) == global_counts(EPOCHS)
    goes_on(again, 20)
    compacted(again)
    assert counts_of(rows_of(again)) == global_counts(EPOCHS + 20)


def test_a_backup_from_the_floor_on_holds_none(store: AgedStore) -> None:
    compacted(store)
    again = taken(store, all_output=False)
    assert not [name for name in manifests(again) if "-" in name]
    goes_on(again, 5)


@pytest.mark.deep
@settings(max_examples=examples(15))
@given(st.lists(st.integers(0, 6), max_size=60))
def test_a_backup_that_is_taken_meanwhile_has_no_span_that_its_head_does_not_allow(paces: list[int]) -> None:
    """Restored, such a span would hold epochs which the chain has still to publish, and with other ranges."""
    source = stored(14)
    steps, rest = LedgerDriver.started(source, LAYOUT, "second").steps(), iter(paces)

    def meanwhile(request: Request) -> None:
        if "/manifests/" in request.key:
            for _ in range(9 * next(rest, 0)):
                next(steps)
            # In this thread: others would wait for the store, which is held meanwhile.
            for group in compaction(source).find().groups:
                compact_group(source, LAYOUT, head_of(source), group)

    source.before = meanwhile
    again = taken(source)
    head = head_of(again)
    for name in manifests(again):
        if "-" in name:
            assert int(name.rpartition("-")[2]) < min(head.floor, head.last_recorded)
    goes_on(again, 12)


def test_a_backup_does_not_copy_what_a_replaced_driver_created_in_the_place_of_a_manifest(store: AgedStore) -> None:
    """The manifest was read, compacted and created again before it is copied."""
    # The first that is copied: one before it, copied after the compaction, would be missing, and the head of now taken.
    key, asked = LAYOUT.manifest(GLOBAL_COUNTS, 0), count(1)
    other = pa.table({"window_start_ms": [1], "count": [99]}, GLOBAL_SCHEMA)

    def meanwhile(request: Request) -> None:
        if request.key == key and next(asked) == 2:
            for group in compaction(store).find().groups:
                compact_group(store, LAYOUT, head_of(store), group)
            with pytest.raises(SinkError, match="is published with digest"):
                ManifestSink(store, LAYOUT, GLOBAL_COUNTS).publish(0, 1, other)

    store.before = meanwhile
    with pytest.raises(SinkError, match=f"a manifest is not the one that was read before .{key}.*run this again"):
        taken(store)
    assert counts_of(rows_of(taken(store))) == global_counts(EPOCHS)
