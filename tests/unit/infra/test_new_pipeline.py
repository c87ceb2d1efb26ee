"""The folder of a new pipeline: complete, right as it is, and never put over something that is there."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from effectively_once.pipeline.settings import load
from infra.images import wheels
from infra.new_pipeline import NewPipelineError, new_pipeline, render
from infra.toolchain.cache import Cache
from infra.toolchain.prepare import CHECKOUT
from infra.toolchain.wheel import build_wheel
from tests.unit.command import call

LONGEST = "a" * 40
TESTS_S = 120


def test_the_folder_has_all_that_a_pipeline_is_made_of(tmp_path: Path) -> None:
    said = new_pipeline("clicks", tmp_path / "own")
    found = {str(path.relative_to(tmp_path / "own")) for path in (tmp_path / "own").rglob("*") if path.is_file()}
    assert found == {
        "pyproject.toml",
        "settings.json",
        "README.md",
        "src/clicks/__init__.py",
        "src/clicks/transform.py",
        "tests/test_clicks.py",
    }
    assert any(f"make run AT={tmp_path / 'own'}" in line for line in said)


def test_without_a_folder_it_is_called_after_the_pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    new_pipeline("clicks")
    assert (tmp_path / "clicks" / "pyproject.toml").is_file()


def test_its_settings_are_those_that_a_driver_reads(tmp_path: Path) -> None:
    new_pipeline("clicks", tmp_path)
    settings = load(tmp_path / "settings.json")
    assert (settings.pipeline, settings.job, settings.topic) == ("clicks", "clicks", "clicks_events")


def test_no_file_names_a_place_of_this_machine() -> None:
    for path, text in render("clicks").items():
        assert str(Path.home()) not in text, path
        assert str(CHECKOUT) not in text, path
        assert "{{" not in text, path


@pytest.mark.parametrize("name", ["clicks", LONGEST])
def test_its_code_has_nothing_that_the_linter_minds(name: str, tmp_path: Path) -> None:
    new_pipeline(name, tmp_path)
    ruff = Path(sys.executable).with_name("ruff")
    words = ["check", "--isolated", "--no-cache", "--line-length", "120", "--select", "E,F,W,I,N,UP,B", "."]
    done = subprocess.run([ruff, *words], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout


IMPOSSIBLE = ["", "Clicks", "my-clicks", "1st", "clicks_", "_clicks", "a" * 41, "a/b", "é"]
TAKEN = ["json", "class", "numpy", "pyspark", "effectively_once", "tests"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        *((name, "is not possible: small letters, digits and _, at most 40") for name in IMPOSSIBLE),
        *((name, f"'{name}' is taken: .*; choose another one") for name in TAKEN),
    ],
)
@pytest.mark.thinned(3)
def test_a_name_that_cannot_be_or_would_hide_a_package_is_refused(name: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(NewPipelineError, match=says):
        new_pipeline(name, tmp_path)
    assert not any(tmp_path.iterdir())


def test_what_is_in_a_folder_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(NewPipelineError, match=f"{tmp_path} is there, and not empty: name another folder with AT="):
        new_pipeline("clicks", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]
    assert (tmp_path / "README.md").read_text() == "mine"


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("mine")
    for at in (tmp_path / "own", tmp_path / "own" / "below"):
        with pytest.raises(NewPipelineError, match="name another folder with AT="):
            new_pipeline("clicks", at)
    assert (tmp_path / "own").read_text() == "mine"


def test_a_refusal_is_one_line_and_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "new-pipeline", "--name", "Clicks") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("✗ NAME='Clicks' is not possible")


def test_its_wheel_is_one_that_an_image_takes(tmp_path: Path) -> None:
    new_pipeline("clicks", tmp_path / "own")
    built = build_wheel(Cache(tmp_path / "cache"), tmp_path / "own")
    assert wheels.read(built.path).name == "clicks"
    with zipfile.ZipFile(built.path) as archive:
        assert {"clicks/__init__.py", "clicks/transform.py"} <= set(archive.namelist())
    project = tomllib.loads((tmp_path / "own" / "pyproject.toml").read_text())["project"]
    assert project["dependencies"] == ["effectively-once"]


DAY_MS = 86_400_000
BOUNDED = "it reads JSON strictly, and refuses a clock that is a day ahead"


def declared(name: str, folder: Path) -> ModuleType:
    """Import a pipeline's package as it is written in a folder."""
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def forgotten() -> Iterator[str]:
    """A name that no module has, before and after."""
    yield "clicks"
    for name in [name for name in sys.modules if name.partition(".")[0] == "clicks"]:
        del sys.modules[name]


def test_its_declaration_refuses_wrong_clocks_and_reads_strictly(
    tmp_path: Path, forgotten: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its author forgets to ask for is what loses records."""
    new_pipeline(forgotten, tmp_path)
    made = declared(forgotten, tmp_path / "src" / forgotten)
    assert made.pipeline.ahead_ms == DAY_MS, BOUNDED
    monkeypatch.setattr(made.transform, "json_records", lambda frame, fields: (frame, fields), raising=False)
    assert made.transform.events("frame") == ("frame", "id string, event_time_ms long, key string, amount long")


def test_the_declaration_of_the_tutorial_does_so_as_well(
    tmp_path: Path, forgotten: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (CHECKOUT / "docs" / "tutorial.md").read_text()
    _, _, text = page.partition("`../clicks/src/clicks/__init__.py`, the whole file:\n\n```python\n")
    (tmp_path / "__init__.py").write_text(text.partition("\n```")[0] + "\n")
    made = declared(forgotten, tmp_path)
    assert made.pipeline.ahead_ms == DAY_MS, BOUNDED
    assert "`ahead_ms` refuses a record that claims to be more than a day after it was sent" in " ".join(page.split())
    monkeypatch.setattr(made, "json_records", lambda frame, fields: (frame, fields))
    assert made.clicks("frame") == ("frame", "id string, event_time_ms long, page string")


@pytest.mark.spark
def test_its_own_tests_pass_as_they_are(tmp_path: Path) -> None:
    """In the project's Python, as `make test AT=` runs them."""
    new_pipeline("clicks", tmp_path)
    argv = [sys.executable, "-m", "tests.cli", "test", "--at", str(tmp_path), "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(argv, cwd=CHECKOUT, capture_output=True, text=True, timeout=TESTS_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout


def test_tests_of_a_folder_that_is_not_there_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "test", "--at", str(tmp_path / "none")) == 2
    assert "`make new-pipeline` makes such a folder" in capsys.readouterr().err
