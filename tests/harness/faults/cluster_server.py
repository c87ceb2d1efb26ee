"""Servers of the platform in their pods: killed or deleted. Kubernetes brings them back."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from infra.cluster.api import ClusterError
from tests.harness.adapters.armed import ArmedSignal
from tests.harness.adapters.drivers import DELETE_NOW, SIGKILL, NoProcessError, Struck
from tests.harness.adapters.server_pods import READY_S, Pick, ServerPod, ServerPods
from tests.harness.faults.fault import Fault, as_miss
from tests.harness.faults.healing import Debt, Healing

FALL_S, POLL_S = 10.0, 0.05
NO_GRACE_S, LEAST_GRACE_S = 0, 1
"""With no grace at all the API forgets a pod at once: for a moment its successor and it have one volume. A broker locks
its folder. Two object stores or databases would be a fault that none of them promises to survive: their pods get the
least grace with which the successor waits for the end of the container."""
LEFT_S = 120.0


def wait_ready(server: ServerPods, ended: threading.Event, longest_s: float = READY_S) -> None:
    """Wait until every pod of a server serves; ends early when the run does. Raises ClusterTimeoutError."""

    def holds() -> bool:
        with suppress(ClusterError, OSError):
            return ended.is_set() or len(server.ready()) >= server.count
        return False

    server.cluster.wait_for(f"the {server.what} to be ready", holds, longest_s, server.describe)


class PickedServer:
    """Whom of a server's pods a fault strikes, and who is there in its place.

    Args:
        server: its pods.
        pick: chooses one of several; None: the announced shard decides.
        ended: ends waits early.

    Attributes:
        pick: who chooses.
        why: what history is to tell of why it is this one.
    """

    def __init__(self, server: ServerPods, pick: Pick | None, ended: threading.Event) -> None:
        self._server, self._ended = server, ended
        self.pick: Pick = pick or server.picked
        self._pod: ServerPod | None = None
        self.why: Mapping[str, Any] = {}

    def wait_ready(self) -> None:
        """Wait until every pod serves. Raises ClusterTimeoutError."""
        wait_ready(self._server, self._ended)

    def choose(self, event: Mapping[str, Any]) -> ServerPod:
        """The one to strike. Raises NoProcessError."""
        with as_miss(f"the {self._server.what} was not struck", ClusterError):
            picked = self.pick(event)
        self._pod, self.why = picked.pod, picked.why
        return picked.pod

    def present(self) -> list[str]:
        """Who is there now, as history names it: kubelet may have started another container."""
        with suppress(ClusterError, OSError):
            return [one.who for one in self._server.ready() if self._pod and one.name == self._pod.name]
        return []


class EndedServerPod(Fault):
    """A server is killed by exec in its container, which kubelet starts again, or its pod is deleted.

    Args:
        server: whose pod.
        kind: `sigkill` or `pod_delete_now`.
        healing: told that it has to come back.
        grace_s: of a deletion, see NO_GRACE_S and LEAST_GRACE_S.
        pick: chooses one of several pods; left out the announced shard decides.

    Attributes:
        picked: whom it strikes.
    """

    lasting = True

    def __init__(
        self, server: ServerPods, kind: str, *, healing: Healing, grace_s: int = LEAST_GRACE_S, pick: Pick | None = None
    ) -> None:
        if kind not in (SIGKILL, DELETE_NOW):
            raise ValueError(f"a pod of the {server.what} is not struck by {kind}")
        self._server, self._kind, self._healing, self._grace_s = server, kind, healing, grace_s
        self.picked = PickedServer(server, pick, healing.ended)
        self._armed: dict[str, ArmedSignal] = {}
        self._debt = Debt(f"see the {server.what} ready again", self._see_ready, server=True)
        self._before: ServerPod
        self._there: set[str] = set()
        self._after: ServerPod | None = None

    def arm(self) -> None:
        """Wait until it serves, and for a SIGKILL open a session in every pod. Raises ClusterTimeoutError."""
        self.picked.wait_ready()
        if self._kind == SIGKILL:
            self._disarm()
            for pod in self._server.ready():
                # One that cannot be entered now is entered when it is struck.
                with suppress(NoProcessError):
                    self._armed[pod.who] = self._server.killer(pod)

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        try:
            pod = self._before = self.picked.choose(event)
            with as_miss(f"the {self._server.what} was not struck", ClusterError):
                self._there = {one.who for one in self._server.pods()}
                at = self._kill(pod) if self._kind == SIGKILL else self._delete(pod)
        finally:
            self._disarm()
        self._healing.owe(self._debt)
        return [(pod.who, at)]

    def endure(self) -> None:
        """Until it serves again, from a container that is not the struck one. Raises ClusterTimeoutError."""
        what = f"{self._before.name} of the {self._server.what} to be ready again"
        self._server.cluster.wait_for(
            what, lambda: self._healing.ended.is_set() or self._back(), READY_S, self._server.describe
        )

    def heal(self) -> None:
        self._healing.pay(self._debt)

    def after(self) -> list[str]:
        return [self._after.who] if self._after else []

    def evidence(self) -> dict[str, Any]:
        if self._after is None:
            return {}
        told = {"restarts": self._after.restarts, "node": self._after.node, **self.picked.why}
        # The successor of a deleted pod has no former container.
        return told | ({"ended_as": self._after.ended_as} if self._after.ended_as else {})

    def _kill(self, pod: ServerPod) -> int:
        armed = self._armed.pop(pod.who, None) or self._server.killer(pod)
        armed.word()
        at, said = armed.struck()
        if not said and not self._fell(pod):
            raise NoProcessError(f"{pod.who}: the shell did not say that it kills, and the container did not fall")
        return at

    def _delete(self, pod: ServerPod) -> int:
        return self._server.cluster.delete_pod(pod.name, pod.uid, self._grace_s)

    def _fell(self, pod: ServerPod) -> bool:
        deadline = time.monotonic() + FALL_S
        while time.monotonic() < deadline:
            if not any(one.who == pod.who and one.ready for one in self._server.pods()):
                return True
            if self._healing.ended.wait(POLL_S):
                break
        return False

    def _back(self) -> bool:
        with suppress(ClusterError, OSError):
            there = self._server.ready()
            fresh = [one for one in there if one.who not in self._there]
            if fresh and len(there) >= self._server.count:
                self._after = fresh[0]
        return self._after is not None

    def _see_ready(self) -> None:
        # Also when the run ends: whoever comes next finds it ready.
        if self._after is None:
            wait_ready(self._server, threading.Event(), LEFT_S)

    def _disarm(self) -> None:
        for armed in self._armed.values():
            armed.close()
        self._armed.clear()
