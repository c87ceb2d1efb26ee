"""What `make run` is given: a folder, or a job of the library; what it cannot run is refused by name."""

from __future__ import annotations

import json
import subprocess
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from infra import cli
from infra.console import Console
from infra.embedded.job import Declared, Job, RunError
from infra.embedded.run import Run
from infra.embedded.run_state import MARK, RunState
from infra.embedded.stack import Endpoints, Kept
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


def kept(root: Path) -> RunState:
    """Make what a run before has left."""
    (root / "state").mkdir()
    state = RunState(root / "state" / "clicks")
    state.open({}, fresh=False, say=pytest.fail)
    (state.folder / "kafka").mkdir()
    return state


@pytest.fixture
def run_again(folder: Path, cache: Cache, toolchain: Toolchain, tmp_path: Path) -> Run:
    """The second run of a pipeline."""
    state = RunState(kept(tmp_path).folder)
    return Run(Job.at(folder, None, cache), toolchain, Console(), tmp_path / "run", state)


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
@pytest.mark.thinned(2)
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
    state = kept(tmp_path)
    run = Run(Job.at(folder, None, cache), toolchain, Console(), tmp_path / "run", state, fresh=True)
    with pytest.raises(RunError, match=r"clicks has tables\. PostgreSQL 15 or newer is not here: install it"):
        run.go()
    assert (state.folder / "kafka").exists(), "a run that cannot begin has removed the data of the one before"


def test_a_declaration_that_cannot_be_imported_removes_nothing(
    folder: Path, cache: Cache, toolchain: Toolchain, tmp_path: Path
) -> None:
    state = kept(tmp_path)
    job = Job.at(folder, "no_such_module", cache)
    with pytest.raises(RunError, match="no_such_module"):
        Run(job, toolchain, Console(), tmp_path / "run", state, fresh=True).go()
    assert (state.folder / "kafka").exists()


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (None, "clicks goes on before its first epoch: "),
        ({"last_recorded": -1}, "clicks goes on with epoch 0: "),
        ({"last_recorded": 6}, "clicks goes on with epoch 7: "),
    ],
)
@pytest.mark.thinned(3)
def test_a_run_that_goes_on_says_with_which_epoch_and_where(
    run_again: Run, head: dict[str, int] | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its servers get the data and keys of the one before."""
    given = []

    class Stack:
        def __init__(self, *_: object, kept: Kept, **__: object) -> None:
            given.append(kept)
            read = {"clicks/head.json": head and json.dumps(head).encode()}
            self.object_store = SimpleNamespace(read=read.__getitem__)

        def __enter__(self) -> Stack:
            return self

        def __exit__(self, *_: object) -> None: ...

        @property
        def endpoints(self) -> Endpoints:
            raise KeyboardInterrupt

    monkeypatch.setattr("infra.embedded.run.EmbeddedStack", Stack)
    folder, stream = run_again.state.folder, StringIO()
    run_again.console = Console(stream=stream)
    run_again.go()
    first, *_, last = stream.getvalue().splitlines()
    assert first == f"✓ {said}{folder} (FRESH=1 begins anew)"
    assert "`make run` goes on where it was" in last
    before = json.loads((folder / MARK).read_text())
    assert given == [Kept(folder, before["access_key"], before["secret_key"])]


def test_fresh_is_an_option_of_make() -> None:
    def planned(*words: str) -> str:
        command = ["make", "--no-print-directory", "-n", "run", "AT=../clicks", *words]
        return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout

    assert planned("FRESH=1").split()[-1] == "--fresh"
    assert "--fresh" not in planned()


def test_one_of_folder_and_job_has_to_be_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "prepare", lambda *_: pytest.fail("prepared"))
    assert call(monkeypatch, "run") == 2
    assert "name the folder of a pipeline (AT=), or a job of the library (JOB=)" in capsys.readouterr().err
