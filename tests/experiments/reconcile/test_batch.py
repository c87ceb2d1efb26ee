"""What the batch run has found is fetched from the object store; an object that is not there is missed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from effectively_once.ledger.objects import Delete
from effectively_once_jobs.reconcile.deployed import RECONCILED, put
from infra.embedded.job import RunError
from tests.experiments.reconcile import batch
from tests.experiments.reconcile.figures import CELLS, REPORT
from tests.harness.run_directory import RunDirectory
from tests.unit.ledger.memory_store import MemoryStore

GROUND: Any = SimpleNamespace(endpoints=SimpleNamespace(s3_endpoint="http://localhost:1", s3_bucket="data"))
FILES = {CELLS: b"cells\n", REPORT: b"{}\n"}


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Stand in for the object store."""
    there = MemoryStore()
    monkeypatch.setattr(batch, "S3ObjectStore", lambda _: there)
    return there


@pytest.fixture
def names(tmp_path: Path, store: Any) -> list[str]:
    """Put what a run finds."""
    folder = tmp_path / "found"
    folder.mkdir()
    for name, body in FILES.items():
        (folder / name).write_bytes(body)
    return put(store, "clicks", folder)


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    path = tmp_path / "batch"
    path.mkdir()
    return RunDirectory(path)


def test_files_come_back_as_they_were_put(directory: RunDirectory, names: list[str]) -> None:
    batch.fetch(directory, GROUND, names)
    assert {one.name: one.read_bytes() for one in directory.path.iterdir()} == FILES


def test_an_object_that_is_not_there_is_missed(directory: RunDirectory, store: Any, names: list[str]) -> None:
    store.answer(Delete(names[0]))
    with pytest.raises(RunError, match=f"{names[0]}, and it is not there"):
        batch.fetch(directory, GROUND, names)


def test_what_a_run_tells_first_is_taken() -> None:
    started: dict[str, Any] = {"event": "driver", "state": "started"}
    assert batch.objects_put([started]) is None
    ends = [{"event": RECONCILED, "code": 0, "objects": [name]} for name in "ab"]
    assert batch.objects_put([started, *ends]) == ["a"]
