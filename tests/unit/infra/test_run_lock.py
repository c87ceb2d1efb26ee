"""One run of a pipeline at a time: who comes second is refused by name, and one that was killed is in nobody's way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from infra import cli
from infra.embedded.guard import TAG
from infra.embedded.process import wait_for
from infra.embedded.run_lock import RunHeldError, end_left, hold
from infra.new_pipeline import new_pipeline
from tests.unit.command import call

ROOT = Path(__file__).parents[3]
# Holds the lock under a guard, with a server that nothing binds to it: an executor is such a one.
HOLDER = """
import os, subprocess, sys, time
from pathlib import Path
from infra.embedded.guard import run_guarded
from infra.embedded.run_lock import hold

def main():
    with hold(Path(sys.argv[1]), "clicks"):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        left = subprocess.Popen(["sleep", "600"], start_new_session=True, **quiet)
        print(os.getpid(), left.pid, flush=True)
        time.sleep(600)
    return 0

sys.exit(run_guarded(main))
"""


class Holder:
    """Another run: its guard, the process that has the lock, and one that it started."""

    def __init__(self, lock: Path) -> None:
        self.guard = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(lock)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert self.guard.stdout is not None
        held, left = map(int, self.guard.stdout.readline().split())
        self.held, self.left = psutil.Process(held), psutil.Process(left)

    def kill(self) -> None:
        """SIGKILL both at once: nobody tidies up."""
        self.guard.kill()
        self.held.kill()
        self.guard.wait()
        wait_for("the end of the holder", 10, lambda: not _runs(self.held))


def _runs(one: psutil.Process) -> bool:
    return bool(one.is_running() and one.status() != psutil.STATUS_ZOMBIE)


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "run" / "clicks.lock"


@pytest.fixture
def holder(lock: Path) -> Iterator[Holder]:
    made = Holder(lock)
    yield made
    made.guard.kill()
    for one in (made.held, made.left):
        with suppress(psutil.NoSuchProcess):
            one.kill()
    made.guard.communicate()


def test_who_comes_second_is_refused_with_who_is_first(lock: Path, holder: Holder) -> None:
    with pytest.raises(RunHeldError) as refused, hold(lock, "clicks"):
        pytest.fail("both have it")
    assert str(refused.value).startswith(f"clicks runs already, by process {holder.held.pid} since 20")
    assert f"`kill -INT {holder.held.pid}`" in str(refused.value)
    assert _runs(holder.left), "who is refused ends nothing"


def test_another_pipeline_runs_beside_it(lock: Path, holder: Holder) -> None:
    with hold(lock.with_name("orders.lock"), "orders"):
        assert _runs(holder.left)


def test_what_a_killed_run_has_left_is_ended_and_its_lock_is_free(lock: Path, holder: Holder) -> None:
    holder.kill()
    assert _runs(holder.left)
    said: list[str] = []
    with hold(lock, "clicks", said.append):
        assert not _runs(holder.left)
        assert json.loads(lock.read_text())["pid"] == os.getpid()
    assert said == [f"… ends what the run before has left: process {holder.left.pid}"]


def test_processes_of_others_and_of_its_own_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another tag is another's; the own one is that of what this process has started meanwhile."""
    with subprocess.Popen(["sleep", "600"], env={**os.environ, TAG: "of a run"}) as one:
        try:
            end_left("of another run")
            assert one.poll() is None
            monkeypatch.setenv(TAG, "of a run")
            end_left("of a run")
            assert one.poll() is None
            monkeypatch.setenv(TAG, "of a later run")
            end_left("of a run")
            assert one.poll() is not None
        finally:
            one.kill()


def test_what_does_not_end_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sleep", "600"], env={**os.environ, TAG: "of a run"}) as one:
        monkeypatch.setattr("infra.embedded.run_lock.kill_all", lambda *_, **__: None)
        try:
            with pytest.raises(RunHeldError, match=f"do not end: {one.pid}; end them"):
                end_left("of a run", timeout_s=0)
        finally:
            one.kill()


def test_the_lock_is_free_after_an_error(lock: Path) -> None:
    with pytest.raises(KeyError), hold(lock, "clicks"):
        raise KeyError
    with hold(lock, "clicks"):
        pass


def test_the_folders_are_their_owners_alone(tmp_path: Path) -> None:
    """The state directory has more in it than runs."""
    with hold(tmp_path / "state" / "run" / "clicks.lock", "clicks"):
        assert [(tmp_path / "state" / one).stat().st_mode & 0o777 for one in (".", "run")] == [0o700, 0o700]


@pytest.mark.parametrize("name", ["../clicks", "..", "", "a/b"])
def test_a_name_that_leads_elsewhere_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(RunHeldError, match="is no name of a pipeline"), hold(tmp_path / "run" / "lock", name):
        pytest.fail("held")
    assert not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file where the folder belongs")
    with (
        pytest.raises(RunHeldError, match="EFFECTIVELY_ONCE_STATE names another"),
        hold(tmp_path / "run" / "l", "clicks"),
    ):
        pytest.fail("held")


def test_the_command_is_refused_before_anything_is_prepared_or_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EFFECTIVELY_ONCE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("EFFECTIVELY_ONCE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cli, "prepare", lambda *_: pytest.fail("prepared"))
    new_pipeline("clicks", tmp_path / "own")
    first = Holder(tmp_path / "state" / "run" / "clicks.lock")
    try:
        assert call(monkeypatch, "run", "--at", str(tmp_path / "own"), "--fresh") == 2
    finally:
        first.guard.terminate()
        first.guard.communicate()
    assert f"✗ clicks runs already, by process {first.held.pid}" in capsys.readouterr().err
