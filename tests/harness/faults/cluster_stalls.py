"""Who stands still in pods, by exec: executors, their JVM alone, Python workers, drivers, servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from tests.harness.adapters.drivers import DELETE_NOW, NoProcessError
from tests.harness.adapters.events import Watch
from tests.harness.adapters.pod_log import EXECUTOR, Pod
from tests.harness.adapters.pod_shell import Enterable, ask_shell
from tests.harness.adapters.server_pods import Pick, ServerPods
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.faults.cluster_driver import find_successor
from tests.harness.faults.cluster_server import PickedServer
from tests.harness.faults.cluster_stall import StalledPod
from tests.harness.faults.stall import StallOfServer
from tests.harness.processes import WORKER

ALIVE = "kill -0 {pid} 2>/dev/null && echo lives || echo ended"


class StalledExecutorPod(StalledPod):
    """The executor that announced a step, or after a declaration one of those that run, or its JVM alone."""

    def _await(self) -> None:
        # A deletion needs no session of the drivers' own.
        self._drivers.arm(DELETE_NOW)

    def _there(self) -> Sequence[Pod]:
        return [pod for pod in self._drivers.log.pods(EXECUTOR) if pod.runs]

    def _choose(self, event: Mapping[str, Any]) -> Pod:
        if event["event"] != "step":
            return self._draw_one(self._there())
        pod = self._drivers.log.pod(str(event.get("pod_uid")))
        if pod is None or pod.role != EXECUTOR or not pod.runs:
            raise NoProcessError(f"pod {event.get('pod')} does not run any more")
        return pod

    def _present(self) -> list[str]:
        return self._executor()


class StalledNeighbourPod(StalledExecutorPod):
    """An executor beside the one that announced a step."""

    def _choose(self, event: Mapping[str, Any]) -> Pod:
        return self._draw_one([pod for pod in self._there() if pod.uid != event.get("pod_uid")])


class StalledWorkerPod(StalledExecutorPod):
    """The Python worker that announced a step, or after a declaration the newest one of an executor.

    Args:
        watch: what they announce.
        given: see StalledPod.
    """

    def __init__(self, *given: Any, watch: Watch, **owed: Any) -> None:
        super().__init__(*given, **owed)
        self._watch = watch

    def _number(self, event: Mapping[str, Any]) -> int | None:
        return int(event["pid"]) if event["event"] == "step" else None

    def _named(self, pod: Enterable) -> str:
        return f"{pod.who}{WORKER}{self._stopped.held.pid}"

    def _present(self) -> list[str]:
        who, at = self._struck
        if self._lives():
            return [who]
        steps = self._watch.steps_after(self._event, at)
        told = [f"{one['pod']}@{one['pod_uid']}{WORKER}{one['pid']}" for one in steps]
        return [one for one in told if one != who][-1:]

    def _lives(self) -> bool:
        if self._gone():
            return False
        with suppress(NoProcessError):
            return ask_shell(self._cluster, self._stopped.pod, ALIVE.format(pid=self._stopped.held.pid)) != "ended"
        return False


class StalledDriverPod(StalledPod):
    """The driver's Python process and its JVM; its executors run on.

    Args:
        watch: what is announced.
        given: see StalledPod.
    """

    def __init__(self, *given: Any, watch: Watch, **owed: Any) -> None:
        super().__init__(*given, **owed)
        self._watch = watch

    def _await(self) -> None:
        self._drivers.arm_driver(DELETE_NOW)

    def _there(self) -> Sequence[Pod]:
        return [self._drivers.running()]

    def _choose(self, event: Mapping[str, Any]) -> Pod:
        return self._drivers.running()

    def _present(self) -> list[str]:
        with suppress(NoProcessError):
            if self._drivers.running().who == self._struck[0]:
                return [self._struck[0]]
        return find_successor(self._drivers, self._watch, *self._struck)


class StalledServerPod(StallOfServer, StalledPod):
    """A server with the processes below it; kubelet may give it up meanwhile.

    Args:
        server: whom.
        pick: chooses one of several pods; left out the announced shard decides.
        given: see StalledPod.
    """

    _drivers: SupervisedPods

    def __init__(self, *given: Any, server: ServerPods, pick: Pick | None = None, **owed: Any) -> None:
        super().__init__(*given, **owed)
        self._server, self._picked = server, PickedServer(server, pick, self._healing.ended)

    def evidence(self) -> dict[str, Any]:
        return {**super().evidence(), **self._picked.why}

    def _await(self) -> None:
        self._picked.wait_ready()

    def _there(self) -> Sequence[Enterable]:
        return self._server.ready()

    def _choose(self, event: Mapping[str, Any]) -> Enterable:
        return self._picked.choose(event)

    def _gone(self) -> bool:
        # Its container may be another one already: the plan's length is a bound all the same.
        return False

    def _present(self) -> list[str]:
        return self._picked.present()
