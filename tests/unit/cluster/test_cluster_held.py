"""Processes that are stopped in a pod go on: at the word, when the session ends, and when its shell is killed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import psutil
import pytest

from tests.harness.adapters import held_pod
from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.held_pod import ALONE, Held, HeldPod, server_held
from tests.harness.adapters.pod_log import EXECUTOR, Pod
from tests.harness.adapters.server_pods import ServerPods, server_pod
from tests.unit.cluster.fake_platform import FakePlatform, ProcShell, server
from tests.unit.harness.sleepers import sleeper, sleepers, soon, state_of

POD = Pod("exec-a", "a", EXECUTOR, "uc", "c", started=True)
SERVER = server_held("broker", "java", ALONE)
ALL, FIRST = [True] * 4, [True, False, False, False]


class Container:
    """Processes of this machine that stand for those of a container: a JVM, what forks workers, two workers."""

    def __init__(self, folder: Path) -> None:
        self.proc = folder / "proc"
        self.proc.mkdir()
        self.children = sleepers(folder, "jvm", "daemon", "first", "second")
        self.children.sort(key=lambda one: one.pid)
        self.jvm, self.daemon, self.first, self.second = (one.pid for one in self.children)
        stats = {
            self.jvm: f"{self.jvm} (java) S 1 1",
            self.daemon: f"{self.daemon} (python3) S {self.jvm} 1",
            self.first: f"{self.first} (python3) S {self.daemon} 1",
            self.second: f"{self.second} (a b) c) S {self.daemon} 1",
        }
        for pid, stat in stats.items():
            (self.proc / str(pid)).mkdir()
            (self.proc / str(pid) / "stat").write_text(stat + "\n")
        self.shells: list[ProcShell] = []

    def shell(self, script: str) -> ProcShell:
        # Everything is everything of the container: on this machine these four.
        everything = " ".join(str(one.pid) for one in self.children)
        script = script.replace("-STOP -1", f"-STOP {everything}").replace("-CONT -1", f"-CONT {everything}")
        assert " -1" not in script.replace("-gt", ""), "that would be every process of this machine"
        self.shells.append(ProcShell(self.proc, script, "nobody", 5))
        return self.shells[-1]

    @property
    def still(self) -> list[bool]:
        """JVM, what forks workers, first worker, second worker."""
        return [state_of(one.pid) == psutil.STATUS_STOPPED for one in self.children]

    def close(self) -> None:
        for shell in self.shells:
            shell.close()
        for one in self.children:
            one.kill()


@pytest.fixture
def container(tmp_path: Path) -> Iterator[Container]:
    made = Container(tmp_path)
    yield made
    made.close()


def held_in(container: Container, held: Held, longest_s: float = 10.0) -> HeldPod:
    platform = FakePlatform()
    platform.sessions = container.shell
    return HeldPod(cast("Cluster", platform), POD, held, longest_s)


@pytest.mark.parametrize(
    ("held", "still"),
    [
        (held_pod.EXECUTOR, ALL),
        (held_pod.EXECUTOR_JVM, FIRST),
        (held_pod.PYTHON_WORKER, [False, False, False, True]),
        (held_pod.DRIVER, ALL),
        (server_held("broker", "java"), ALL),
        (SERVER, FIRST),
    ],
    ids=["executor", "its JVM", "its newest worker", "driver", "server", "server alone"],
)
def test_those_stand_still_who_are_meant_and_go_on_at_the_word(
    container: Container, held: Held, still: list[bool]
) -> None:
    stop = held_in(container, held)
    assert container.still == [False] * 4
    stop.stop()
    soon("all who are meant to stand still", lambda: container.still == still)
    stop.resume()
    assert container.still == [False] * 4
    assert len(container.shells) == 1, "the shell that stopped them continues them"


def test_a_worker_that_is_named_is_the_one(container: Container) -> None:
    stop = held_in(container, held_pod.PYTHON_WORKER)
    stop.stop(container.first)
    assert container.still == [False, False, True, False]
    assert stop.pid == container.first
    stop.resume()


@pytest.mark.parametrize(("held", "still"), [(held_pod.EXECUTOR, ALL), (SERVER, FIRST)], ids=["executor", "server"])
def test_they_go_on_when_the_session_ends_or_its_shell_is_killed(
    container: Container, held: Held, still: list[bool]
) -> None:
    """A harness that is killed closes its sessions, and can do no more."""
    held_in(container, held).stop()
    container.shells[0].close()
    soon("them to go on", lambda: not any(container.still))
    held_in(container, held, 0.6).stop()
    container.shells[1].process.kill()
    soon("all to stand still", lambda: container.still == still)
    soon("them to go on", lambda: not any(container.still))


def test_what_was_continued_is_not_continued_again_in_the_next_fault(container: Container) -> None:
    first = held_in(container, SERVER, 0.5)
    first.stop()
    first.resume()
    second = held_in(container, SERVER)
    second.stop()
    began = time.monotonic()
    while time.monotonic() < began + 0.9:
        assert container.still == FIRST
        time.sleep(0.05)
    second.resume()


@pytest.mark.parametrize("held", [held_pod.EXECUTOR, SERVER], ids=["executor", "server"])
def test_where_the_shell_does_not_answer_another_one_continues_them(container: Container, held: Held) -> None:
    stop = held_in(container, held, 60)
    stop.stop()
    container.shells[0].process.kill()
    container.shells[0].process.wait()
    assert any(container.still)
    stop.resume()
    soon("them to go on", lambda: not any(container.still))
    assert len(container.shells) == 2


def test_a_container_without_who_is_meant_is_refused(container: Container) -> None:
    with pytest.raises(NoProcessError, match=r"no object store to stop \(no minio\)"):
        held_in(container, server_held("object store", "minio"))
    (container.proc / str(container.jvm) / "stat").write_text("1 (sh) S 1 1\n")
    with pytest.raises(NoProcessError, match="no executor to stop"):
        held_in(container, held_pod.EXECUTOR)
    with pytest.raises(NoProcessError, match=r"python worker was not stopped \(no JVM\)"):
        held_in(container, held_pod.PYTHON_WORKER).stop()


def test_a_server_that_has_ended_was_not_stopped(container: Container) -> None:
    stop = held_in(container, SERVER)
    container.children[0].kill()
    with pytest.raises(NoProcessError, match="broker was not stopped"):
        stop.stop()


def test_the_armed_killer_kills_the_server_and_none_of_the_same_name(tmp_path: Path) -> None:
    """A server is the child of the first process; another of its name may be a test or a probe."""
    child, proc, platform = sleeper(tmp_path), tmp_path / "proc", FakePlatform()
    proc.mkdir()
    platform.sessions = lambda script: ProcShell(proc, script, "java", child.pid)
    armed = ServerPods(cast("Cluster", platform), "broker", "app=kafka", "java").killer(server_pod(server()))
    assert child.running()
    armed.word()
    assert armed.struck()[1]
    soon("the server to end", lambda: not child.running())
