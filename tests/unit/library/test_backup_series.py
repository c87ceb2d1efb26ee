"""Backups one after the other: each in a folder of its own, and the newest complete ones stay."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from effectively_once.ledger.objects import Delete, Put
from effectively_once.operate.backup.backup import Backup
from effectively_once.operate.backup.backup_manifest import MANIFEST, BackupError, manifest_of
from effectively_once.operate.backup.location import BackupLocation
from effectively_once.operate.backup.series import Series
from effectively_once.store.folder_store import FolderStore
from tests.unit.library.backups import LAYOUT, restored, stored
from tests.unit.library.listed_store import ListedStore
from tests.unit.library.names import GLOBAL_COUNTS


@pytest.fixture(params=["bucket", "folder"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> BackupLocation:
    """Return where a series lies; beside it there is something else."""
    store = ListedStore() if request.param == "bucket" else FolderStore(tmp_path)
    return BackupLocation(store, "there", "backups/clicks/")


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def series(place: BackupLocation, said: list[str]) -> Series:
    return Series(place, LAYOUT.pipeline, said.append)


def take(series: Series, day: int) -> BackupLocation:
    """Take the backup of a day."""
    place = series.begin(datetime(2026, 3, day, 4, 5, 6, tzinfo=UTC))
    Backup(stored(3), LAYOUT, place, [GLOBAL_COUNTS]).take()
    return place


def break_off(series: Series, day: int) -> None:
    """Leave an object of a backup that was never complete."""
    series.begin(datetime(2026, 3, day, tzinfo=UTC)).answer(Put("segments/0-1", b"{}", None))


def folders(series: Series) -> list[str]:
    return sorted({name.partition("/")[0] for name in series.place.names()})


def test_the_newest_complete_ones_stay_and_can_be_restored(series: Series, said: list[str]) -> None:
    for day in (1, 2):
        take(series, day)
    series.prune(2)
    assert (folders(series), said) == (["20260301T040506Z", "20260302T040506Z"], [])
    newest = take(series, 3)
    gone, unpinned = manifest_of(series.place.below("20260301T040506Z")), list[int]()
    replace(series, unpin=unpinned.append).prune(2)
    assert unpinned == [gone.taken_ms]
    assert folders(series) == ["20260302T040506Z", "20260303T040506Z"]
    assert [one.partition(", ")[0] for one in said] == ["deleted: there/20260301T040506Z"]
    assert restored(newest).objects


def test_one_that_broke_off_counts_for_nothing_and_goes_with_those_before_it(series: Series) -> None:
    break_off(series, 1)
    take(series, 1)
    series.prune(2)
    assert folders(series) == ["20260301T000000Z", "20260301T040506Z"]
    series.prune(1)
    break_off(series, 2)
    series.prune(1)
    assert folders(series) == ["20260301T040506Z", "20260302T000000Z"]
    break_off(series, 4)
    take(series, 3)
    series.prune(2)
    assert folders(series) == ["20260301T040506Z", "20260302T000000Z", "20260303T040506Z", "20260304T000000Z"]
    series.prune(1)
    assert folders(series) == ["20260303T040506Z", "20260304T000000Z"]


def test_folders_of_other_names_are_left_alone(series: Series) -> None:
    series.place.below("monday").answer(Put(MANIFEST, b"{}", None))
    for day in (1, 2):
        take(series, day)
    series.prune(1)
    assert folders(series) == ["20260302T040506Z", "monday"]


def test_an_interrupted_deletion_leaves_nothing_that_seems_complete(
    series: Series, monkeypatch: pytest.MonkeyPatch
) -> None:
    for day in (1, 2):
        take(series, day)
    deleted: list[str] = []
    answer = BackupLocation.answer

    def counted(self: BackupLocation, request: object) -> object:
        if isinstance(request, Delete):
            deleted.append(request.key)
        return answer(self, request)  # type: ignore[arg-type]

    monkeypatch.setattr(BackupLocation, "answer", counted)
    series.prune(1)
    assert deleted[0] == MANIFEST
    assert len(deleted) > 1


def test_the_backups_of_another_pipeline_are_refused_and_stay(series: Series, place: BackupLocation) -> None:
    take(series, 1)
    with pytest.raises(BackupError, match=r"backups of pipeline 'clicks' are there .*Name another place"):
        Series(place, "orders", print).begin(datetime.now(UTC))
    assert folders(series) == ["20260301T040506Z"]
