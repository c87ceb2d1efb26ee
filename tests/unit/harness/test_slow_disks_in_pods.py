"""Slow disks of servers in pods: whose processes they are, who is there afterwards, and where it cannot be done."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from infra.cluster.api import UnreachableError
from infra.toolchain.command import ToolchainError
from tests.harness.adapters.container import find_first
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.server_pods import Picked, ServerPod, ServerPods
from tests.harness.faults import slow_disk_arsenal, slowable
from tests.harness.faults.slow_disk_arsenal import strace_beside
from tests.harness.faults.slowable import SlowablePod
from tests.harness.platform_sorts import BROKER, OBJECT_STORE
from tests.unit.harness.sleepers import Server
from tests.unit.harness.struck import World

ID = "4f" * 32
POD = ServerPod("minio-0", "u1", "minio", ID, "node-1", ready=True)


class Pods(ServerPods):
    """Those that a test says there are."""

    def __init__(self, *there: ServerPod) -> None:
        super().__init__(None, OBJECT_STORE, "", "minio")  # type: ignore[arg-type]
        object.__setattr__(self, "there", list(there))

    def pods(self) -> list[ServerPod]:
        if self.there is None:  # type: ignore[attr-defined]
            raise UnreachableError("no answer")
        return self.there  # type: ignore[attr-defined, no-any-return]


@pytest.fixture
def server(world: World) -> Server:
    return world.server()


def write_status(proc: Path, pid: int, container_id: str, numbers: str) -> None:
    """What a kernel tells of a process."""
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "cgroup").write_text(f"0::/kubelet/cri-containerd-{container_id}.scope\n")
    (folder / "status").write_text(f"Name:\tminio\nNSpid:\t{numbers}\nThreads:\t1\n")


def test_the_first_process_of_a_container_is_found_among_all(server: Server, tmp_path: Path) -> None:
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "meminfo").write_text("")
    (proc / "7").mkdir()
    write_status(proc, 8, "5e" * 32, "8 70 1")
    write_status(proc, 9, ID, "9 71 12")
    # A process of this machine is in no container, whatever its control group is called.
    write_status(proc, 1, ID, "1")
    with pytest.raises(NoProcessError, match="container 4f4f4f4f4f4f has no process on this machine"):
        find_first(ID, proc)
    write_status(proc, server.pid, ID, f"{server.pid} 70 1")
    assert find_first(ID, proc).pid == server.pid
    with pytest.raises(NoProcessError):
        find_first("", proc)


def test_no_container_is_taken_for_a_process_beside_it() -> None:
    with pytest.raises(NoProcessError):
        find_first(ID)


def test_a_pod_is_slowed_by_its_processes_here_and_named_as_the_cluster_names_it(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def find(container_id: str) -> psutil.Process:
        asked.append(container_id)
        return psutil.Process(server.pid)

    monkeypatch.setattr(slowable, "find_first", find)
    pods = Pods(POD)
    pod = SlowablePod(pods, None, threading.Event())
    assert (pod.present(), pod.why) == ([], {})
    who, family = pod.family({"shard": 0})
    assert (who, family[0].pid, asked) == (POD.who, server.pid, [ID])
    assert pod.present() == [POD.who]
    # kubelet gave the container up: somebody else is there, and strace was gone with it.
    again = ServerPod("minio-0", "u1", "minio", "9a" * 32, "node-1", ready=True, restarts=1)
    pods.there[:] = [again]  # type: ignore[attr-defined]
    assert pod.present() == [again.who] != [who]
    object.__setattr__(pods, "there", None)
    assert pod.present() == []
    with pytest.raises(NoProcessError, match="the object store was not struck: no answer"):
        pod.family({})


def test_of_several_pods_the_one_that_is_chosen_is_slowed_and_why_is_told(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slowable, "find_first", lambda _: psutil.Process(server.pid))
    other = ServerPod("kafka-1", "u2", "kafka", "77" * 32, "node-2", ready=True)
    pod = SlowablePod(Pods(POD, other), lambda _: Picked(other, {"led": 3}), threading.Event())
    assert pod.family({})[0] == other.who
    assert (pod.present(), pod.why) == ([other.who], {"led": 3})


def test_where_the_engine_is_on_another_machine_no_disk_is_slowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_disk_arsenal, "find_strace", lambda: Path("/usr/bin/strace"))
    with pytest.raises(ToolchainError, match=r"minio-0: container 4f4f4f4f4f4f has no process.*where the engine runs"):
        strace_beside({OBJECT_STORE: Pods(POD)})
    monkeypatch.setattr(slow_disk_arsenal, "find_first", lambda _: None)
    servers: dict[str, Any] = {OBJECT_STORE: Pods(POD), BROKER: Pods(), "operator": SimpleNamespace()}
    assert strace_beside(servers) == Path("/usr/bin/strace")
