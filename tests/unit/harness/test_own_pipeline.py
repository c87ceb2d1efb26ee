"""What the campaign refuses of a pipeline of somebody else's before anything is started, and in which words."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from infra.new_pipeline import new_pipeline
from infra.toolchain.prepare import CHECKOUT
from infra.toolchain.wheel import Wheel
from tests.harness.own import pipeline as own_pipeline
from tests.harness.own.pipeline import main

ROW = '{{"id": "{0}", "event_time_ms": {0}, "key": "a", "amount": 1}}\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A skeleton; the toolchain is a stand-in, and nothing goes beyond it."""
    new_pipeline("clicks", tmp_path / "clicks")
    library = Wheel(Path("library.whl"), "ab" * 32, CHECKOUT / "pipelines" / "src")
    monkeypatch.setenv("EFFECTIVELY_ONCE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(own_pipeline, "prepare", lambda _: SimpleNamespace(wheel=library))
    monkeypatch.setattr(own_pipeline, "class_archive", _never)
    return tmp_path / "clicks"


def _never(*_: Any) -> None:
    raise AssertionError("it went on")


def refused(capsys: pytest.CaptureFixture[str], folder: Path, text: str, *more: str) -> str:
    """Give the campaign a file of that text; what it says on its error output."""
    events = folder.with_name("events.jsonl")
    events.write_text(text)
    words = ["--at", str(folder), "--input", str(events), "--key", "key", "--time", "event_time_ms", *more]
    assert main(words) == 1
    return capsys.readouterr().err


def test_a_file_too_short_for_its_faults(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, folder, "".join(ROW.format(n) for n in range(60)), "--faults", "driver-kill*2")
    assert "60 rows are too few for 2 faults" in said
    assert "give 250 rows" in said


def test_a_file_of_broken_lines_only(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "none of its 500 lines is a JSON object" in refused(capsys, folder, "{broken\n" * 500)


def test_a_column_that_is_not_there(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "column 'key' (KEY) is not there" in refused(capsys, folder, '{"event_time_ms": 1, "user": "a"}\n' * 500)


def test_a_fault_that_is_none(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no fault 'meteorite'" in refused(capsys, folder, ROW.format(1), "--faults", "meteorite")


def test_a_step_of_the_clock(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "runs without libfaketime" in refused(capsys, folder, ROW.format(1), "--faults", "clock-step")


def test_a_fault_of_a_database_where_the_pipeline_has_no_table(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "there is no result store here" in refused(capsys, folder, ROW.format(1), "--faults", "database-kill")


@pytest.mark.parametrize(
    ("job", "why"),
    [
        ("no_such_module", "the job cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"),
        ("clicks.transform", "the module has no pipeline that is a Pipeline"),
        ("clicks:other", "the module has no other that is a Pipeline"),
    ],
)
def test_a_module_that_declares_no_pipeline(
    folder: Path, capsys: pytest.CaptureFixture[str], job: str, why: str
) -> None:
    assert why in refused(capsys, folder, ROW.format(1), "--job", job)


def test_a_folder_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "`make new-pipeline` makes one" in refused(capsys, tmp_path / "nothing", ROW.format(1))


def test_without_folder_and_job_there_is_nothing_to_strike(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--input", "events.jsonl", "--key", "key", "--time", "at"])
    assert "name the folder of a pipeline" in capsys.readouterr().err
