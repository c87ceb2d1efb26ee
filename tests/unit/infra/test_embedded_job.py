"""What `make run` is given: a folder, or a job of the library; what it cannot run is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from infra import cli
from infra.console import Console
from infra.embedded.job import Declared, Job, RunError
from infra.embedded.run import Run
from infra.new_pipeline import new_pipeline
from infra.toolchain.cache import Cache
from infra.toolchain.prepare import CHECKOUT, Toolchain
from infra.toolchain.wheel import Wheel
from tests.unit.command import call

SOURCES = CHECKOUT / "pipelines" / "src"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    """Of all tests, which build the wheel of equal folders once."""
    return Cache(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def toolchain() -> Toolchain:
    return cast(Toolchain, SimpleNamespace(wheel=Wheel(Path("library.whl"), "ab" * 32, SOURCES)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    new_pipeline("clicks", tmp_path / "own")
    return tmp_path / "own"


def changed(folder: Path, **settings: object) -> Path:
    path = folder / "settings.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))
    return folder


def test_a_folder_gives_settings_without_addresses_and_its_code(folder: Path, cache: Cache) -> None:
    job = Job.at(changed(folder, shards=3, database="postgresql://elsewhere:1/x"), None, cache)
    assert job.settings == {"pipeline": "clicks", "job": "clicks", "topic": "clicks_events", "shards": 3}
    assert job.wheel is not None
    assert (job.wheel.installed / "clicks" / "transform.py").is_file()


def test_another_job_of_the_folder_may_be_named(folder: Path, cache: Cache) -> None:
    assert Job.at(folder, "clicks:other", cache).settings["job"] == "clicks:other"


def test_a_job_of_the_library_needs_no_folder(toolchain: Toolchain) -> None:
    job = Job.from_library("effectively_once_jobs.user_counts")
    assert (job.name, job.settings["topic"]) == ("user_counts", "user_counts_events")
    assert job.environment(toolchain)["EFFECTIVELY_ONCE_WHEEL_DIGEST"] == toolchain.wheel.sha256


def test_the_digest_is_that_of_the_library_and_of_the_job(folder: Path, cache: Cache, toolchain: Toolchain) -> None:
    def digest(tools: Toolchain) -> str:
        return Job.at(folder, None, cache).environment(tools)["EFFECTIVELY_ONCE_WHEEL_DIGEST"]

    newer = cast(Toolchain, SimpleNamespace(wheel=Wheel(Path("library.whl"), "cd" * 32, SOURCES)))
    before = digest(toolchain)
    assert digest(toolchain) == before != digest(newer)
    transform = folder / "src" / "clicks" / "transform.py"
    transform.write_text(transform.read_text() + "\n")
    assert digest(toolchain) != before


def test_sinks_are_those_of_the_declaration(folder: Path, cache: Cache, toolchain: Toolchain) -> None:
    declared = Declared.of(Job.at(folder, None, cache), toolchain)
    assert declared == Declared(kafka=("accepted", "dead_letter", "per_minute"), files=(), tables=())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read: .*No such file"),
        ("{", "cannot be read: "),
        ("[]", "lacks one of pipeline, job, topic"),
        ('{"pipeline": "a", "topic": "b"}', "lacks one of pipeline, job, topic"),
        ('{"pipeline": "a", "topic": "b", "job": 3}', "lacks one of pipeline, job, topic"),
    ],
)
def test_settings_that_say_too_little_are_refused(folder: Path, cache: Cache, text: str | None, said: str) -> None:
    path = folder / "settings.json"
    path.unlink() if text is None else path.write_text(text)
    with pytest.raises(RunError, match=rf"settings\.json {said}.*`make new-pipeline` makes one"):
        Job.at(folder, None, cache)


@pytest.mark.parametrize(
    ("job", "said"),
    [
        ("no_such_module", "SettingsError: the job cannot be imported: ModuleNotFoundError"),
        ("clicks:nothing", "SettingsError: the module has no nothing that is a Pipeline"),
    ],
)
def test_a_declaration_that_is_not_there_is_told_in_one_line(
    job: str, said: str, folder: Path, cache: Cache, toolchain: Toolchain
) -> None:
    with pytest.raises(RunError) as refused:
        Declared.of(Job.at(folder, job, cache), toolchain)
    assert str(refused.value).startswith(f"clicks: {said}")
    assert "\n" not in str(refused.value)


def test_a_declaration_that_does_not_come_to_an_end_is_told(
    folder: Path, cache: Cache, toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infra.embedded.job.ASK_S", 0.01)
    with pytest.raises(RunError, match="clicks: its module is not imported within"):
        Declared.of(Job.at(folder, None, cache), toolchain)


def test_tables_without_postgresql_are_refused_before_anything_is_started(
    folder: Path, cache: Cache, toolchain: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infra.embedded.run.find_postgres", lambda: None)
    monkeypatch.setattr("infra.embedded.run.EmbeddedStack", lambda *_: pytest.fail("started"))
    monkeypatch.setattr(Declared, "of", lambda *_: Declared(("accepted",), (), ("results",)))
    run = Run(Job.at(folder, None, cache), toolchain, Console(), tmp_path / "run")
    with pytest.raises(RunError, match=r"clicks has tables\. PostgreSQL 15 or newer is not here: install it"):
        run.go()


def test_one_of_folder_and_job_has_to_be_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "prepare", lambda *_: pytest.fail("prepared"))
    assert call(monkeypatch, "run") == 2
    assert "name the folder of a pipeline (AT=), or a job of the library (JOB=)" in capsys.readouterr().err
