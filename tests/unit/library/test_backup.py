"""A backup taken while a driver runs is the chain at one moment, with everything that its head names (R9)."""

from __future__ import annotations

from itertools import cycle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effectively_once.epoch import refusals
from effectively_once.errors import ChainError, SinkError
from effectively_once.ledger.head import decode
from effectively_once.ledger.objects import Get, Put, Request
from effectively_once.operate.backup.backup import Backup
from effectively_once.operate.backup.backup_manifest import MANIFEST, BackupError, BackupManifest, manifest_of
from effectively_once.operate.backup.location import BackupLocation
from effectively_once.state.merge import FAN
from tests.depth import examples
from tests.unit.library.backups import LAYOUT, goes_on, head_of, restored, stored, taken
from tests.unit.library.ledger_driver import LedgerDriver, global_counts
from tests.unit.library.listed_store import ListedStore
from tests.unit.library.names import GLOBAL_COUNTS
from tests.unit.library.test_reader import counts_of, rows_of


def test_a_backup_holds_every_object_of_a_pipeline_that_head_names() -> None:
    """And head besides; what nobody reads any more is not copied."""
    source = stored(70)
    assert head_of(source).segments
    orphan = LAYOUT.staged_file(GLOBAL_COUNTS, 3, "orphan")
    source.objects[orphan] = b"orphan"
    place = taken(source)
    again = restored(place)
    assert {key: body for key, body in source.objects.items() if key not in (LAYOUT.head, orphan)} == {
        key: body for key, body in again.objects.items() if key != LAYOUT.head
    }
    changed = {"owner", "generation", "sequence"}
    assert head_of(again).model_dump(exclude=changed) == head_of(source).model_dump(exclude=changed)
    goes_on(again, 80)


def test_the_manifest_is_written_last_and_holds_the_head() -> None:
    source, kept = stored(5), ListedStore()
    taken(source, kept)
    puts = [request.key for request in kept.requests if isinstance(request, Put)]
    assert puts.count(MANIFEST) == 1
    assert puts[-1] == MANIFEST
    manifest = BackupManifest.model_validate_json(kept.objects[MANIFEST])
    assert manifest.head.encode() == source.objects[LAYOUT.head]
    assert set(manifest.objects) == set(kept.objects) - {MANIFEST}


def test_a_pipeline_that_has_published_nothing_can_be_backed_up() -> None:
    source = ListedStore()
    LedgerDriver.started(source, LAYOUT)
    goes_on(restored(taken(source)), 4)


def test_a_declared_epoch_is_published_again_after_a_restore() -> None:
    source = stored(6)
    steps = LedgerDriver.started(source, LAYOUT, "second").steps()
    while next(steps) != "published":
        pass
    again = restored(taken(source))
    declared = head_of(again).declared
    assert declared is not None
    assert declared.epoch == 6
    assert counts_of(rows_of(again)) == global_counts(6)
    goes_on(again, 9)


# A driver that merges every two deltas can overtake the copying in every epoch: it stops after eight, of ten tries.
@pytest.mark.parametrize(("fan", "most"), [(2, 70), (FAN, 200)])
@settings(max_examples=examples(25))
@given(st.lists(st.integers(0, 3), min_size=1, max_size=30))
def test_at_whatever_pace_a_driver_goes_on_meanwhile_the_backup_can_go_on_from(
    fan: int, most: int, paces: list[int]
) -> None:
    """Before each request of the copying the driver does some steps: declares, collects, merges, moves segments."""
    source = stored(8, fan)
    steps, turns = LedgerDriver.started(source, LAYOUT, "second", fan=fan).steps(), cycle(paces)
    left = iter(range(most))

    def advance(_: Request) -> None:
        for _step in range(next(turns)):
            if next(left, None) is not None:
                next(steps)

    source.before = advance
    again = restored(taken(source))
    goes_on(again, head_of(again).last_recorded + 5)


def test_merged_deltas_are_copied_and_not_the_parts_that_they_stand_for() -> None:
    """Stopped in order before its parts are deleted."""
    source = stored(3, fan=2)
    parts, span = [LAYOUT.delta("ids", epoch, 0) for epoch in (0, 1)], LAYOUT.span("ids", 0, 1, 0)
    assert {span, *parts} <= set(source.objects)
    again = restored(taken(source))
    assert span in again.objects
    assert not set(parts) & set(again.objects)
    goes_on(again, 9)


def collecting(source: ListedStore, *, times: int) -> list[str]:
    """Let three epochs pass before a delta is read, so that it is collected: so many times. Returns those deltas."""
    steps = LedgerDriver.started(source, LAYOUT, "second").steps()
    gone: list[str] = []

    def collect(request: Request) -> None:
        if isinstance(request, Get) and "/deltas/ids/" in request.key and len(gone) < times:
            gone.append(request.key)
            while request.key in source.objects:
                next(steps)

    source.before = collect
    return gone


def test_deltas_that_are_collected_while_they_are_copied_are_not_missed() -> None:
    source = stored(8)
    gone, said, kept = collecting(source, times=2), list[str](), ListedStore()
    manifest = Backup(source, LAYOUT, BackupLocation(kept, "memory"), [GLOBAL_COUNTS], said.append).take()
    assert len(gone) == 2
    assert not set(gone) & {f"{LAYOUT.pipeline}/{name}" for name in manifest.objects}
    assert sum("is not there; going on" in line for line in said) in (1, 2)  # two may belong to one head
    goes_on(restored(BackupLocation(kept, "memory")), 40)


def test_a_floor_that_always_overtakes_the_copying_is_named() -> None:
    source, kept = stored(8), ListedStore()
    collecting(source, times=10**6)
    with pytest.raises(
        BackupError, match=r"rose above what was being copied, 10 times .*while the pipeline is stopped"
    ):
        taken(source, kept)
    assert MANIFEST not in kept.objects


def test_a_manifest_purged_while_it_is_looked_for_is_not_missed() -> None:
    """Retention deletes manifests below the floor: then the floor of the copied head has to be there."""
    source = stored(8)
    floor = head_of(source).floor
    steps, purged = LedgerDriver.started(source, LAYOUT, "second").steps(), list[int]()

    def purge(request: Request) -> None:
        if isinstance(request, Get) and request.key == LAYOUT.manifest(GLOBAL_COUNTS, floor) and not purged:
            while head_of(source).floor <= floor + 1:
                next(steps)
            for epoch in range(floor + 1):
                purged.append(epoch)
                del source.objects[LAYOUT.manifest(GLOBAL_COUNTS, epoch)]

    source.before = purge
    manifest = manifest_of(taken(source))
    assert purged
    held = {int(name[-14:-5]) for name in manifest.objects if "/manifests/" in name}
    head = decode(manifest.head.encode(), "head")
    assert head.floor > floor
    assert held == set(range(floor + 1, head.last_recorded + 1))


@pytest.mark.parametrize("kind", ["deltas/ids", "deltas/counts", "segments", "global_counts/data"])
def test_what_is_missing_or_damaged_is_named_and_no_backup_is_complete(kind: str) -> None:
    for damage in (None, b"", b"\x00" * 700):
        source, kept = stored(70), ListedStore()
        key = next(key for key in sorted(source.objects) if f"/{kind}/" in key)
        source.objects.pop(key)
        if damage is not None:
            source.objects[key] = damage
        with pytest.raises((ChainError, SinkError), match=f"(missing|damaged|corrupt).*{key}"):
            taken(source, kept)
        assert MANIFEST not in kept.objects


def test_rows_that_are_not_those_of_the_chain_are_not_copied() -> None:
    """A whole delta in the place of another one."""
    source = stored(8)
    keys = [key for key in sorted(source.objects) if "/deltas/ids/" in key]
    source.objects[keys[0]] = source.objects[keys[1]]
    with pytest.raises(ChainError, match="not those the chain names"):
        taken(source)


def test_without_a_head_or_with_a_damaged_one_there_is_no_backup() -> None:
    source = stored(3)
    body = source.objects.pop(LAYOUT.head)
    with pytest.raises(ChainError, match=f"there is no head .{LAYOUT.head}"):
        taken(source)
    source.objects[LAYOUT.head] = body[:-9]
    with pytest.raises(ChainError, match="head cannot be read"):
        taken(source)


@pytest.mark.parametrize("puts", range(0, 22, 3))
@pytest.mark.thinned(3)
def test_a_backup_that_broke_off_is_incomplete_and_can_be_finished(puts: int) -> None:
    source, kept = stored(8), ListedStore()
    kept.break_off_after(puts)
    with pytest.raises(ConnectionError):
        taken(source, kept)
    with pytest.raises(BackupError, match="the backup has no manifest: it is incomplete"):
        restored(BackupLocation(kept, "memory"))
    kept.mend()
    LedgerDriver.started(source, LAYOUT, "second").run(3)
    goes_on(restored(taken(source, kept)), 15)


def test_a_place_with_another_backup_is_refused_and_left_as_it_is() -> None:
    source, kept = stored(5), ListedStore()
    taken(source, kept)
    before = dict(kept.objects)
    with pytest.raises(BackupError, match=r"another backup is there .memory, backup.json.*Name an empty place"):
        taken(source, kept)
    assert kept.objects == before
    name = next(name for name in kept.objects if name.startswith("deltas/"))
    other = ListedStore()
    other.objects[name] = b"other"
    with pytest.raises(BackupError, match=f"another backup is there .memory, {name}"):
        taken(source, other)


def test_of_two_backups_to_one_place_at_once_one_is_refused() -> None:
    """Whose manifest is there first has the place, and it is complete: both copied the same objects."""
    source, first, kept = stored(5), ListedStore(), ListedStore()
    taken(source, first)

    def overtake(request: Request) -> None:
        if isinstance(request, Put) and request.key == MANIFEST:
            kept.objects |= {
                name: body.replace(b'"taken_ms":', b'"taken_ms": ') for name, body in first.objects.items()
            }

    kept.before = overtake
    with pytest.raises(BackupError, match=r"another backup is there .memory, backup.json"):
        taken(source, kept)
    restored(BackupLocation(kept, "memory"))


def test_output_below_the_floor_can_be_left_out() -> None:
    source = stored(12)
    floor = head_of(source).floor
    again = restored(taken(source, all_output=False))
    rows = rows_of(again)
    assert (rows.first, rows.last) == (floor, 11)
    assert counts_of(rows) == [row for row in global_counts(12) if row[0] >= floor]


def test_what_a_step_recorded_for_the_declared_epoch_is_copied_and_for_others_not() -> None:
    store = stored(5)
    driver = LedgerDriver.started(store, LAYOUT, "second")
    assert next(driver.steps()) == "declared"
    names = [LAYOUT.step_record("look_up", epoch, shard) for epoch in (4, 5) for shard in range(2)]
    for name in names:
        store.objects[name] = name.encode()
    place = BackupLocation(ListedStore(), "memory")
    Backup(store, LAYOUT, place, [GLOBAL_COUNTS], steps=["look_up"]).take()
    assert [name for name in names if name in restored(place).objects] == names[2:]
    goes_on(restored(place), 8)


@pytest.mark.parametrize("tried", [("orders",), ()])
def test_what_tables_refused_of_the_declared_epoch_is_copied_where_one_is_tried(tried: tuple[str, ...]) -> None:
    """Where none is, nothing is asked for, and no epoch that ends meanwhile has the backup begin anew."""
    store = stored(5)
    assert next(LedgerDriver.started(store, LAYOUT, "second").steps()) == "declared"
    head = head_of(store)
    assert head.declared is not None
    pinned = head.declared.model_copy(update={"tried": tried})
    store.objects[LAYOUT.head] = head.model_copy(update={"declared": pinned}).encode()
    name = LAYOUT.step_record(refusals.STEP, 5, 1)
    store.objects[name] = b"refused"
    place = BackupLocation(ListedStore(), "memory")
    Backup(store, LAYOUT, place, []).take()
    assert (name in restored(place).objects) == (Get(name) in store.requests) == bool(tried)


def test_an_epoch_that_ends_while_its_records_are_copied_is_not_left_without_them() -> None:
    """Its records are gone by then: the backup goes on with the head of now."""
    source = stored(5)
    driver = LedgerDriver.started(source, LAYOUT, "second")
    steps = driver.steps()
    assert next(steps) == "declared"

    def finish(request: Request) -> None:
        while request == Get(LAYOUT.step_record("look_up", 5, 1)) and driver.held.head.last_recorded < 5:
            next(steps)

    source.before = finish
    place = BackupLocation(ListedStore(), "memory")
    Backup(source, LAYOUT, place, [], steps=["look_up"]).take()
    assert head_of(restored(place)).last_recorded == 5
