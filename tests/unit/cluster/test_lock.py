"""Two commands that change a cluster do not do so at once, and one that died is in nobody's way."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from infra.cluster import engine as engines
from infra.cluster.lifecycle import Lifecycle
from infra.cluster.lock import BusyError, exclusive
from infra.cluster.state import StateDirectory
from infra.command_line import run
from infra.console import Console
from infra.toolchain.prepare import Toolchain
from tests.harness.stack.deployed import Found

ROOT = Path(__file__).resolve().parents[3]
# Holds the lock with a child that outlives it, as an engine does.
HOLDER = """
import subprocess, sys, time
from pathlib import Path
from infra.cluster import engine
from infra.cluster.lock import exclusive
from infra.cluster.state import StateDirectory
engine.RUN = Path(sys.argv[2])
with exclusive(StateDirectory(Path(sys.argv[1])), "make up"):
    child = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL, start_new_session=True)
    print(child.pid, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(state: StateDirectory) -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-c", HOLDER, str(state.root), str(engines.RUN)]
    process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    yield process
    process.kill()
    process.communicate()
    subprocess.run(["/bin/kill", str(child)], check=False)


def _toolchain() -> Toolchain:
    return cast(Toolchain, SimpleNamespace())


COMMANDS: list[tuple[str, Callable[[Lifecycle], None]]] = [
    ("make up", lambda ours: ours.up(_toolchain(), "laptop")),
    ("make down", lambda ours: ours.down()),
    ("make images", lambda ours: ours.show_images(_toolchain(), "", "")),
    ("make sbom", lambda ours: ours.write_sboms(_toolchain(), "", "")),
]


@pytest.mark.parametrize(("name", "command"), COMMANDS, ids=[name for name, _ in COMMANDS])
def test_a_second_command_is_refused_with_the_firsts_name_and_changes_nothing(
    *,
    name: str,
    command: Callable[[Lifecycle], None],
    ours: Lifecycle,
    holder: subprocess.Popen[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for step in ("ensure", "running", "stop"):
        monkeypatch.setattr(engines, step, lambda *_: pytest.fail("went on"))
    assert run(lambda **_: command(ours)) == 2
    assert f"✗ {name}: make up (process {holder.pid}, since " in capsys.readouterr().err


def test_a_run_looks_for_no_cluster_that_somebody_is_at_work_on(
    state: StateDirectory, holder: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EFFECTIVELY_ONCE_STATE", str(state.root))
    monkeypatch.setattr(Found, "here", lambda _: pytest.fail("looked"))
    console = Console(stream=io.StringIO())
    with pytest.raises(BusyError, match=rf"^make chaos: make up .process {holder.pid}, since"):
        Found.alone("make chaos", console).__enter__()
    holder.kill()
    holder.wait()
    monkeypatch.setattr(Found, "here", lambda _: "found")
    with (
        Found.alone("make chaos", console) as found,
        pytest.raises(BusyError, match=r"^make down: make chaos .process"),
    ):
        assert cast(object, found) == "found"
        exclusive(state, "make down").__enter__()


def test_another_state_directory_is_no_way_around_it(holder: subprocess.Popen[str], tmp_path: Path) -> None:
    """Both mean the one cluster of this machine: who fails to make it would delete the other's."""
    other = StateDirectory(tmp_path / "other")
    said = f"make up: process {holder.pid} is at work on the cluster of this machine with another state directory"
    with pytest.raises(BusyError, match=said), exclusive(other, "make up"):
        pass
    assert other.lock.read_text() == ""
    holder.kill()
    holder.wait()
    with exclusive(other, "make up"):
        assert other.lock.read_text().startswith("make up (process ")


def test_a_holder_that_was_killed_frees_it_though_what_it_started_lives(
    state: StateDirectory, holder: subprocess.Popen[str]
) -> None:
    with pytest.raises(BusyError), exclusive(state, "make down"):
        pass
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with exclusive(state, "make down"):
        assert state.lock.read_text().startswith("make down (process ")


def test_one_command_after_the_other_is_free_to_work_also_after_one_that_failed(state: StateDirectory) -> None:
    with pytest.raises(ZeroDivisionError), exclusive(state, "make up"):
        raise ZeroDivisionError
    with exclusive(state, "make down"):
        pass
    assert state.lock.read_text() == ""
