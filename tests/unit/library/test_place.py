"""Where backups are kept: a folder that holds whole files only, or a prefix of a bucket that is not the pipeline's."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from effectively_once.errors import AccessError, SettingsError
from effectively_once.ledger.objects import Absent, Get, Put, create_once, run
from effectively_once.operate.backup.place import Place, place_of
from effectively_once.store.folder_store import FolderStore
from effectively_once.store.object_store import S3ObjectStore
from effectively_once.store.s3_client import ACCESS_KEY, SECRET_KEY
from tests.settings import pipeline_settings
from tests.unit.ledger.store_contract import creates_once, forgets_what_is_deleted, keeps_every_byte
from tests.unit.library.listed_store import ListedStore

SETTINGS = pipeline_settings()


@pytest.mark.parametrize("promise", [creates_once, forgets_what_is_deleted, keeps_every_byte])
def test_a_folder_keeps_what_a_backup_needs_of_an_object_store(promise: object, tmp_path: Path) -> None:
    assert callable(promise)
    promise(FolderStore(tmp_path), "deltas/ids/0000")
    assert not list(tmp_path.rglob(".*")), "an unfinished file was left"


def test_of_many_who_create_a_file_one_wins(tmp_path: Path) -> None:
    bodies = [str(n).encode() * 10_000 for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        held = list(pool.map(lambda body: run(create_once("a/b", body), FolderStore(tmp_path)), bodies))
    assert len(set(held)) == 1
    assert (tmp_path / "a" / "b").read_bytes() == held[0]


def test_a_folder_replaces_nothing(tmp_path: Path) -> None:
    with pytest.raises(NotImplementedError):
        FolderStore(tmp_path).answer(Put("head.json", b"", "etag"))


def test_what_the_folder_refuses_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    store = FolderStore(tmp_path / "file")
    with pytest.raises(AccessError, match=rf"the folder refuses: .*{tmp_path}/file/name.*space that is left"):
        store.answer(Put("name", b"", None))
    with pytest.raises(AccessError, match="the folder refuses"):
        FolderStore(tmp_path).answer(Get(""))


def test_a_file_that_could_not_be_finished_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk shows at the latest when the file is synchronised."""

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(AccessError, match="No space left on device"):
        FolderStore(tmp_path).answer(Put("name", b"body", None))
    assert list(tmp_path.iterdir()) == []


def test_names_lie_below_the_prefix() -> None:
    store = ListedStore()
    place = Place(store, "s3://data/backups/monday", "backups/monday/")
    run(create_once("backup.json", b"whole"), place)
    assert store.objects == {"backups/monday/backup.json": b"whole"}
    assert place.answer(Get("other")) == Absent()


def test_a_bucket_is_at_the_pipelines_endpoint_unless_another_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ACCESS_KEY, "key")
    monkeypatch.setenv(SECRET_KEY, "secret")
    for endpoint, expected in ((None, "http://localhost:1"), ("https://far:2", "https://far:2")):
        place = place_of("s3://safe/user/monday/", SETTINGS, endpoint)
        assert isinstance(place.store, S3ObjectStore)
        assert (place.store.address.endpoint, place.store.address.bucket) == (expected, "safe")
        assert (place.prefix, str(place)) == ("user/monday/", "s3://safe/user/monday/")
    # Another bucket, or another endpoint, may use the same prefix.
    assert place_of("s3://safe/clicks/monday", SETTINGS).prefix == "clicks/monday/"
    assert place_of("s3://data/clicks_of_monday", SETTINGS).prefix == "clicks_of_monday/"


@pytest.mark.parametrize("name", ["s3://data", "s3://data/", "s3:///monday"])
def test_a_bucket_without_a_prefix_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match=f"no bucket or no prefix .{name}"):
        place_of(name, SETTINGS)


@pytest.mark.parametrize("name", ["s3://data/clicks", "s3://data/clicks/backups/monday"])
def test_a_place_among_the_pipelines_own_objects_is_refused(name: str) -> None:
    """It would go when they go, and a restore would find itself in the way."""
    with pytest.raises(SettingsError, match="lies among the objects of the pipeline"):
        place_of(name, SETTINGS)


def test_anything_else_is_a_folder(tmp_path: Path) -> None:
    place = place_of(str(tmp_path / "monday"), SETTINGS)
    run(create_once("backup.json", b"whole"), place)
    assert (tmp_path / "monday" / "backup.json").read_bytes() == b"whole"
