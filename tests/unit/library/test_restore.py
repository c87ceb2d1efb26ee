"""Putting a chain back: whole or not at all, never over another one, and no driver of before goes on with it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from effectively_once.errors import ChainError, SettingsError, StaleDriverError
from effectively_once.ledger import chain
from effectively_once.ledger.head import Head
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Put, Request, run
from effectively_once.operate.backup.backup_manifest import MANIFEST, BackupError
from effectively_once.operate.backup.restore import restore
from tests.unit.library.backups import LAYOUT, goes_on, head_of, restored, stored, taken
from tests.unit.library.ledger_driver import LedgerDriver
from tests.unit.library.listed_store import ListedStore
from tests.unit.library.names import GLOBAL_COUNTS


@pytest.mark.parametrize("puts", range(0, 22, 3))
def test_before_the_last_put_there_is_no_head_and_a_second_restore_finishes_it(puts: int) -> None:
    place, target = taken(stored(8)), ListedStore()
    target.break_off_after(puts)
    with pytest.raises(ConnectionError):
        restore(place, target, LAYOUT)
    assert LAYOUT.head not in target.objects
    target.mend()
    restore(place, target, LAYOUT)
    goes_on(target, 12)


def test_the_same_backup_again_changes_nothing() -> None:
    place, said = taken(stored(8)), list[str]()
    target = restored(place)
    before = dict(target.objects)
    restore(place, target, LAYOUT, say=said.append)
    assert target.objects == before
    assert said == ["this backup is restored already; nothing was changed"]


def test_a_pipeline_that_has_a_chain_is_left_as_it_is() -> None:
    source = stored(8)
    place = taken(source)
    LedgerDriver.started(source, LAYOUT, "second").run(1)
    for target in (source, stored(1)):
        before = dict(target.objects)
        with pytest.raises(ChainError, match=rf"the pipeline has a chain .{LAYOUT.head}.*Stop its driver"):
            restore(place, target, LAYOUT)
        assert target.objects == before


def test_files_of_a_lake_table_may_stay_where_they_are_and_no_others() -> None:
    place, target = taken(stored(8)), ListedStore()
    target.objects["clicks/visits/data/000000009-a.parquet"] = b"rows"
    with pytest.raises(ChainError, match="1 objects of the pipeline are not those of the backup"):
        restore(place, target, LAYOUT, kept=("other", "deltas"))
    restore(place, target, LAYOUT, kept=("visits",))
    goes_on(target, 12)


def test_a_head_that_appears_meanwhile_is_not_replaced() -> None:
    """A driver was started too early: it finds no head, and begins a chain of its own."""
    place, target = taken(stored(8)), ListedStore()

    def start(request: Request) -> None:
        if isinstance(request, Put) and request.key == LAYOUT.head:
            target.mend()
            LedgerDriver.started(target, LAYOUT, "early")

    target.before = start
    with pytest.raises(ChainError, match="the pipeline has a chain"):
        restore(place, target, LAYOUT)
    assert head_of(target).owner == "early"


@pytest.mark.parametrize("name", [LAYOUT.delta("ids", 8, 0), LAYOUT.manifest(GLOBAL_COUNTS, 8), "clicks/anything"])
def test_objects_that_are_not_of_the_backup_are_refused(name: str) -> None:
    """A delta of the next epoch would be taken for its decision."""
    place, target = taken(stored(8)), ListedStore()
    target.objects[name] = b"left over"
    other = name.removeprefix("clicks/")
    with pytest.raises(ChainError, match=f"1 objects .* not those of the backup, the first is {other} .clicks/"):
        restore(place, target, LAYOUT)
    assert target.objects == {name: b"left over"}


def test_an_object_of_another_content_is_refused() -> None:
    place, target = taken(stored(8)), ListedStore()
    target.objects[LAYOUT.manifest(GLOBAL_COUNTS, 2)] = b"other"
    with pytest.raises(ChainError, match="not those of the backup"):
        restore(place, target, LAYOUT)
    assert target.objects[LAYOUT.manifest(GLOBAL_COUNTS, 2)] == b"other"
    assert LAYOUT.head not in target.objects


def _flipped(body: bytes) -> bytes:
    return body[:-30] + bytes([body[-30] ^ 1]) + body[-29:]


@pytest.mark.parametrize("damage", [_flipped, lambda body: body[:-1], lambda _: b""])
@pytest.mark.parametrize("kind", ["deltas/", "segments/", "global_counts/manifests/", "global_counts/data/"])
@pytest.mark.thinned(4)
def test_a_damaged_object_of_a_backup_is_found_before_anything_is_put(
    kind: str, damage: Callable[[bytes], bytes]
) -> None:
    kept, target = ListedStore(), ListedStore()
    place = taken(stored(70), kept)
    name = next(name for name in kept.objects if name.startswith(kind))
    kept.objects[name] = damage(kept.objects[name])
    with pytest.raises(BackupError, match=f"an object of the backup is damaged .memory, {name}"):
        restore(place, target, LAYOUT)
    del kept.objects[name]
    with pytest.raises(BackupError, match=f"an object of the backup is missing .memory, {name}"):
        restore(place, target, LAYOUT)
    assert target.objects == {}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"digest": "0" * 64}, "the manifest of the backup is damaged"),
        ({"taken_ms": 0}, "the manifest of the backup is damaged"),
        ({"head": "{}"}, "the manifest of the backup is damaged"),
        ({"format": 2, "more": 1}, "the backup has format 2, this is 1"),
        ({"more": 1}, "cannot be read: Extra inputs"),
    ],
)
def test_a_damaged_manifest_is_refused(changes: dict[str, object], said: str) -> None:
    kept, target = ListedStore(), ListedStore()
    place = taken(stored(3), kept)
    kept.objects[MANIFEST] = json.dumps({**json.loads(kept.objects[MANIFEST]), **changes}).encode()
    with pytest.raises(BackupError, match=f"{said}.*{MANIFEST}"):
        restore(place, target, LAYOUT)
    kept.objects[MANIFEST] = kept.objects[MANIFEST][:-9]
    with pytest.raises(BackupError, match="cannot be read"):
        restore(place, target, LAYOUT)
    assert target.objects == {}


def test_a_backup_of_another_pipeline_is_refused() -> None:
    with pytest.raises(BackupError, match="is of pipeline clicks, the settings are of views"):
        restore(taken(stored(3)), ListedStore(), Layout("views"))


def test_a_head_that_is_refused_is_not_restored() -> None:
    target = ListedStore()

    def refuse(head: Head) -> None:
        raise SettingsError(f"epoch {head.last_recorded} is refused", "here", "Do.")

    with pytest.raises(SettingsError, match="epoch 2 is refused"):
        restore(taken(stored(3)), target, LAYOUT, refuse)
    assert target.objects == {}


def test_a_driver_that_slept_since_the_backup_cannot_go_on_after_the_restore() -> None:
    """With the very head of the backup in its hand it could, and no start check would look at the sinks."""
    source = stored(8)
    asleep = LedgerDriver.started(source, LAYOUT, "asleep")
    place = taken(source)
    assert head_of(source) == asleep.held.head
    LedgerDriver.started(source, LAYOUT, "other").run(3)
    for name in list(source.objects):
        del source.objects[name]
    restore(place, source, LAYOUT)
    with pytest.raises(StaleDriverError, match="replaced by restored-"):
        asleep.run(1)
    goes_on(source, 10)


def test_the_generations_of_drivers_that_were_lost_lie_below_those_to_come() -> None:
    source = stored(8)
    place = taken(source)
    lost = max(LedgerDriver.started(source, LAYOUT, f"driver {n}").held.head.generation for n in range(50))
    assert LedgerDriver.started(restored(place), LAYOUT, "after").held.head.generation > lost


def test_a_restored_head_is_the_one_of_the_backup_but_for_its_owner() -> None:
    """Its settings and records are those of the backup, so a driver of other settings is refused as before."""
    target = restored(taken(stored(8)))
    head = run(chain.read(LAYOUT), target)
    assert (head.last_recorded, head.owner[:9], head.sequence) == (7, "restored-", head_of(stored(8)).sequence + 1)
