"""A platform of plain data: pods that fall and come back as a test says, and shells that are real."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from select import select
from typing import Any

import pytest

from infra.cluster.api import UnreachableError
from tests.harness.adapters.cluster import ClusterTimeoutError
from tests.harness.adapters.drivers import NoProcessError

Object = dict[str, Any]
WAIT_S = 1.0


def server(
    name: str = "kafka-0",
    uid: str = "aaaa-1",
    cid: str = "c1",
    *,
    ready: bool = True,
    restarts: int = 0,
    ended: Object | None = None,
    node: str = "worker",
    phase: str = "Running",
) -> Object:
    """A pod of a server as the API tells it."""
    state: Object = {"running": {}} if ready else {"waiting": {}}
    status = {
        "containerID": f"containerd://{cid}",
        "ready": ready,
        "restartCount": restarts,
        "state": state,
        "lastState": {"terminated": ended} if ended else {},
    }
    return {
        "metadata": {"name": name, "uid": uid},
        "spec": {"nodeName": node, "containers": [{"name": "kafka"}]},
        "status": {"phase": phase, "containerStatuses": [status]},
    }


class FakePlatform:
    """What server faults ask of a cluster, remembered."""

    namespace = "platform"

    def __init__(self, *pods: Object) -> None:
        self.there: list[Object] = list(pods)
        self.done: list[tuple[Any, ...]] = []
        self.sessions: Callable[[str], Any] = lambda _: None
        self.on_delete: Callable[[], None] = lambda: None
        self.silent = False
        self.nodes_there: list[Object] = [node("worker")]
        self.states: list[str] = []
        self.wait_s = WAIT_S

    def pods(self, selector: str) -> list[Object]:
        if self.silent:
            raise UnreachableError("no answer")
        return list(self.there)

    def nodes(self) -> list[Object]:
        return self.nodes_there

    def node(self, name: str) -> Object:
        return next(one for one in self.nodes_there if one["metadata"]["name"] == name)

    def application(self, name: str) -> Object | None:
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return {"status": {"applicationState": {"state": state}}}

    def patch_application(self, name: str, change: Object) -> None:
        self.done.append(("patch", name, change))

    def enter(self, pod: str, container: str, script: str) -> Any:
        self.done.append(("enter", pod))
        session = self.sessions(script)
        if session is None:
            raise NoProcessError(f"pod {pod} cannot be entered")
        return session

    def delete_pod(self, name: str, uid: str, grace_s: int | None) -> int:
        self.done.append(("delete", name, uid, grace_s))
        self.on_delete()
        return 1_750_000_000_456

    @contextmanager
    def gives_up(self, on: str | None = None) -> Iterator[None]:
        """What is waited for within does not come, which a few looks tell; the wait says so."""
        self.wait_s = 0.05
        with pytest.raises(ClusterTimeoutError, match=on):
            yield
        self.wait_s = WAIT_S

    def wait_for(self, what: str, holds: Callable[[], bool], timeout_s: float, seen: Callable[[], object]) -> None:
        deadline = time.monotonic() + min(timeout_s, self.wait_s)
        while not holds():
            if time.monotonic() > deadline:
                raise ClusterTimeoutError(f"{what}; last seen: {seen()}")
            time.sleep(0.01)


def node(name: str, *, ready: bool = True) -> Object:
    """A node as the API tells it."""
    return {
        "metadata": {"name": name},
        "status": {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
    }


class Shell:
    """A session of exec that is a shell of this machine."""

    def __init__(self, script: str) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(["sh", "-c", script], stdin=pipe, stdout=pipe, text=True, bufsize=1)

    def readline_stdout(self, timeout: float | None = None) -> str:
        assert timeout is not None, "nobody waits for ever"
        assert self.process.stdout is not None
        return self.process.stdout.readline() if select([self.process.stdout], [], [], timeout)[0] else ""

    def write_stdin(self, data: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def is_open(self) -> bool:
        return self.process.poll() is None

    def close(self) -> None:
        with suppress(OSError):
            assert self.process.stdin is not None
            self.process.stdin.close()
        self.process.wait(5)


class ProcShell(Shell):
    """Its script finds `victim` on a /proc of its own."""

    def __init__(self, folder: Path, script: str, program: str, victim: int) -> None:
        for pid, stat in {
            1: "1 (tini) S 0",
            victim: f"{victim} ({program}) S 1 1",
            7: f"7 ({program}) S 4711 1",
        }.items():
            (folder / str(pid)).mkdir(exist_ok=True)
            (folder / str(pid) / "stat").write_text(stat + "\n")
        (folder / "99").mkdir(exist_ok=True)  # one that has just ended
        super().__init__(script.replace("for folder in /proc/", f"for folder in {folder}/"))
