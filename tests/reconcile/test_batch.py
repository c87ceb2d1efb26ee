"""The batch run as a driver: its files go by the object store, and a run that could not tell is none."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from effectively_once.errors import ChainError
from effectively_once.ledger.objects import Delete
from infra.embedded.job import RunError
from tests.harness.run_directory import RunDirectory
from tests.reconcile import batch, batch_job
from tests.reconcile.figures import CELLS, REPORT
from tests.settings import REQUIRED
from tests.unit.ledger.memory_store import MemoryStore

GROUND: Any = SimpleNamespace(endpoints=SimpleNamespace(s3_endpoint="http://localhost:1", s3_bucket="data"))
FILES = {CELLS: b"cells\n", REPORT: b"{}\n"}


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    """Stand in for the object store of both sides."""
    shared = MemoryStore()
    for module in (batch, batch_job):
        monkeypatch.setattr(module, "S3ObjectStore", lambda _: shared)
    return shared


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(REQUIRED))
    return path


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "found"
    folder.mkdir()
    for name, body in FILES.items():
        (folder / name).write_bytes(body)
    return folder


def directory(tmp_path: Path) -> RunDirectory:
    path = tmp_path / "batch"
    path.mkdir()
    return RunDirectory(path)


def test_files_come_back_as_they_were_put_whoever_ran_before(
    tmp_path: Path, store: MemoryStore, settings: Path, files: Path
) -> None:
    first = batch_job.put(settings, files)
    names = batch_job.put(settings, files)
    assert all(name.startswith(f"{REQUIRED['pipeline']}/") for name in (*first, *names))
    assert not {*first} & {*names}
    run = directory(tmp_path)
    batch.fetch(run, GROUND, {"code": 1, "objects": names})
    assert {one.name: one.read_bytes() for one in run.path.iterdir()} == FILES


def test_a_file_that_is_not_there_is_missed(tmp_path: Path, store: MemoryStore, settings: Path, files: Path) -> None:
    names = batch_job.put(settings, files)
    store.answer(Delete(names[0]))
    with pytest.raises(RunError, match=f"{names[0]}, and it is not there"):
        batch.fetch(directory(tmp_path), GROUND, {"code": 0, "objects": names})


def test_a_store_that_does_not_take_a_file_ends_the_driver(
    monkeypatch: pytest.MonkeyPatch, settings: Path, files: Path
) -> None:
    refusing = SimpleNamespace(answer=lambda _: "no")
    monkeypatch.setattr(batch_job, "S3ObjectStore", lambda _: refusing)
    with pytest.raises(RuntimeError, match="was not put: no; the next driver"):
        batch_job.put(settings, files)


def test_a_run_that_could_not_tell_is_none(tmp_path: Path, store: MemoryStore) -> None:
    with pytest.raises(RunError, match=f"exit code {ChainError.exit_code}; .*logs says why"):
        batch.fetch(directory(tmp_path), GROUND, {"code": ChainError.exit_code, "objects": []})


def test_the_first_word_of_a_run_is_taken() -> None:
    started: dict[str, Any] = {"event": "driver", "state": "started"}
    assert batch.told([started]) is None
    ends = [{"event": "reconciled", "code": 0, "objects": [name]} for name in "ab"]
    assert batch.told([started, *ends]) == ends[0]


@pytest.mark.parametrize("code", [1, ChainError.exit_code])
def test_it_tells_how_it_went_and_stays_until_it_is_told_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: MemoryStore, settings: Path, code: int
) -> None:
    events = tmp_path / "events.jsonl"
    monkeypatch.setenv("EFFECTIVELY_ONCE_EVENTS", str(events))
    monkeypatch.setenv(batch_job.BESIDE, "other.user_counts")
    asked: list[Sequence[str]] = []
    waited: list[bool] = []

    def command(words: Sequence[str]) -> int:
        asked.append(words)
        if code in batch.ANSWERS:
            (Path(words[2]) / REPORT).write_bytes(b"{}")
        return code

    class Stopped:
        """An event that is set by SIGTERM, which comes once it is waited for."""

        def set(self) -> None:
            self.said = True

        def wait(self) -> None:
            assert json.loads(events.read_text().splitlines()[-1])["event"] == batch_job.RECONCILED
            signal.raise_signal(signal.SIGTERM)
            assert self.said
            waited.append(True)

    monkeypatch.setattr("effectively_once_jobs.reconcile.__main__.main", command)
    monkeypatch.setattr("threading.Event", Stopped)
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert batch_job.main([str(settings)]) == 0
    finally:
        signal.signal(signal.SIGTERM, before)
    assert waited
    assert [(words[0], *words[3:]) for words in asked] == [(str(settings), "--beside", "other.user_counts")]
    told = batch.told([json.loads(line) for line in events.read_text().splitlines()])
    assert told is not None
    assert told["code"] == code
    assert [name.rpartition("/")[2] for name in told["objects"]] == ([REPORT] if code == 1 else [])
