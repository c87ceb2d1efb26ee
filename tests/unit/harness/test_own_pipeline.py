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
    assert main(words) == 2
    return capsys.readouterr().err


ONE = ROW.format(1)
REFUSED = [
    ("".join(map(ROW.format, range(60))), ["--faults", "driver-kill*2"], "60 rows are too few ... give 250 rows"),
    ("{broken\n" * 500, [], "none of its 500 lines is a JSON object"),
    ('{"event_time_ms": 1, "user": "a"}\n' * 500, [], "column 'key' (KEY) is not there"),
    (ONE, ["--faults", "meteorite"], "there is no fault 'meteorite'"),
    (ONE, ["--faults", "clock-step"], "runs without libfaketime"),
    (ONE, ["--faults", "database-kill"], "there is no result store here"),
    (ONE, ["--job", "no_such_module"], "cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"),
    (ONE, ["--job", "clicks.transform"], "the module has no pipeline that is a Pipeline"),
    (ONE, ["--job", "clicks:other"], "the module has no other that is a Pipeline"),
]


@pytest.mark.parametrize(("text", "words", "why"), REFUSED)
def test_what_cannot_be_struck_is_refused_with_the_reason(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str, words: list[str], why: str
) -> None:
    said = refused(capsys, folder, text, *words)
    assert all(part in said for part in why.split(" ... ")), said


def test_a_folder_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "`make new-pipeline` makes one" in refused(capsys, tmp_path / "nothing", ROW.format(1))


def test_without_folder_and_job_there_is_nothing_to_strike(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--input", "events.jsonl", "--key", "key", "--time", "at"])
    assert "name the folder of a pipeline" in capsys.readouterr().err
