"""A server that is stopped in its pod goes on: at the word, when the session ends, and when its shell is killed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import psutil
import pytest

from tests.harness.adapters.armed import ArmedSignal
from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.held import HeldStop
from tests.harness.adapters.server_pods import ServerPods, server_pod
from tests.unit.cluster.fake_platform import FakePlatform, Shell, server
from tests.unit.harness.sleepers import sleeper, soon, state_of

POD = server_pod(server())


class Held:
    """A broker's pod whose server is a sleeper of this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "proc"
        self.folder.mkdir()
        self.child = sleeper(folder)
        self.platform = FakePlatform(server())
        self.shells: list[Shell] = []
        self.platform.sessions = self.shell
        self.server = ServerPods(cast("Cluster", self.platform), "broker", "app=kafka", "java")

    def shell(self, script: str) -> Shell:
        self.shells.append(Shell(self.folder, script, "java", self.child.pid))
        return self.shells[-1]

    @property
    def stands(self) -> bool:
        return bool(state_of(self.child.pid) == psutil.STATUS_STOPPED)


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    made = Held(tmp_path)
    yield made
    made.child.kill()


def test_the_server_is_the_child_of_the_first_process(held: Held) -> None:
    """Another process of the same name, which a test or a probe may be, is left alone."""
    stop = HeldStop(held.server, POD, 10)
    assert not held.stands
    stop.stop()
    assert held.stands
    stop.resume()
    assert not held.stands
    assert [one[0] for one in held.platform.done] == ["enter"], "the shell that stopped it continues it"


def test_it_goes_on_when_the_session_ends(held: Held) -> None:
    """A harness that is killed closes its sessions, and can do no more."""
    stop = HeldStop(held.server, POD, 10)
    stop.stop()
    stop.close()
    soon("the server to go on", lambda: not held.stands)


def test_it_goes_on_by_itself_when_the_shell_is_killed_too(held: Held) -> None:
    HeldStop(held.server, POD, 0.6).stop()
    held.shells[0].process.kill()
    assert held.stands
    soon("the server to go on", lambda: not held.stands)


def test_what_was_continued_is_not_continued_again_in_the_next_fault(held: Held) -> None:
    first = HeldStop(held.server, POD, 0.9)
    first.stop()
    first.resume()
    second = HeldStop(held.server, POD, 10)
    second.stop()
    began = time.monotonic()
    while time.monotonic() < began + 1.5:
        assert held.stands
        time.sleep(0.05)
    second.resume()


def test_where_the_shell_does_not_answer_another_one_continues(held: Held) -> None:
    stop = HeldStop(held.server, POD, 10)
    stop.stop()
    held.shells[0].process.kill()
    held.shells[0].process.wait()
    assert held.stands
    stop.resume()
    soon("the server to go on", lambda: not held.stands)
    assert [one[0] for one in held.platform.done] == ["enter", "enter"]


def test_a_pod_without_the_server_is_refused(held: Held) -> None:
    held.server = ServerPods(held.server.cluster, "store", "app=minio", "minio")
    with pytest.raises(NoProcessError, match=r"no minio to stop \(no minio\)"):
        HeldStop(held.server, POD, 10)


def test_a_server_that_has_ended_was_not_stopped(held: Held) -> None:
    stop = HeldStop(held.server, POD, 10)
    held.child.kill()
    with pytest.raises(NoProcessError, match="was not stopped"):
        stop.stop()


def test_the_armed_killer_kills_the_server_at_the_word(held: Held) -> None:
    armed: ArmedSignal = held.server.killer(POD)
    assert held.child.running()
    armed.word()
    _, said = armed.struck()
    assert said
    soon("the server to end", lambda: not held.child.running())
