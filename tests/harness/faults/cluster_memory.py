"""Executors out of memory: a process beside the JVM takes what its container has left, and the kernel kills."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tests.harness.adapters.armed import ArmedSignal, Word
from tests.harness.adapters.drivers import DELETE_NOW, NoProcessError, Struck
from tests.harness.adapters.pod_log import EXECUTOR, Pod
from tests.harness.adapters.pods import PodDrivers
from tests.harness.adapters.server_pods import FIND
from tests.harness.faults.fault import Fault, now_ms

REASON = "OOMKilled"
STARVED_S, LOOK_S, CHUNK_MIB = 30.0, 0.01, 8
# The kernel kills one process of the container, or all of them (control groups of version 2): the JVM is made the one.
# bytearray fills what it takes with zeros, so it is really taken. The bound is the whole container's: without a limit
# it would otherwise take the machine's.
STARVE = """
echo "starve $victim"
echo 1000 > "/proc/$victim/oom_score_adj"
python3 -c 'taken = [bytearray({chunk} << 20) for _ in range({chunks})]' </dev/null >/dev/null 2>&1 &
"""


class StarvedExecutor(Fault):
    """The executor that announced a step runs out of its container's memory; it counts if Kubernetes says so.

    Args:
        drivers: whose executors.
        ended: ends the wait early.
    """

    def __init__(self, drivers: PodDrivers, *, ended: threading.Event) -> None:
        self._drivers, self._ended = drivers, ended
        self._armed: dict[str, ArmedSignal] = {}
        self._before: set[str] = set()
        self._pod: Pod

    def arm(self) -> None:
        """Wait for every executor, and open a session in each. Raises ClusterTimeoutError."""
        # A deletion needs no session of the drivers' own.
        self._drivers.arm(DELETE_NOW)
        self._disarm()
        for pod in self._drivers.log.pods(EXECUTOR):
            with suppress(NoProcessError):
                if pod.runs:
                    self._armed[pod.uid] = self._entered(pod)

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        pod = self._drivers.log.pod(str(event.get("pod_uid")))
        try:
            if pod is None or pod.role != EXECUTOR or not pod.runs:
                raise NoProcessError(f"pod {event.get('pod')} does not run any more")
            self._pod, self._before = pod, {pod.who, *self._drivers.executors()}
            armed = self._armed.pop(pod.uid, None) or self._entered(pod)
            armed.word()
            armed.struck()
        finally:
            self._disarm()
        return [(pod.who, self._fell())]

    def after(self) -> list[str]:
        return [one for one in self._drivers.executors() if one not in self._before][:1]

    def evidence(self) -> dict[str, Any]:
        return {"ended_as": REASON}

    def _fell(self) -> int:
        """When the container was seen ended for want of memory (ms). Raises NoProcessError when it was not."""
        deadline = time.monotonic() + STARVED_S
        while time.monotonic() < deadline and not self._ended.wait(LOOK_S):
            now = self._drivers.log.pod(self._pod.uid)
            if now is None or now.ended:
                at = now_ms()
                if now is None or now.reason != REASON:
                    raise NoProcessError(
                        f"{self._pod.who} ended, but not for want of memory: {now.reason if now else ''}"
                    )
                return at
        raise NoProcessError(f"{self._pod.who} did not run out of memory within {STARVED_S:.0f} s")

    def _entered(self, pod: Pod) -> ArmedSignal:
        asked = self._drivers.values.get("executors", {})
        limit_mib = int(asked.get("memoryMib", 0)) + int(asked.get("memoryOverheadMib", 0))
        if limit_mib == 0:
            raise NoProcessError(f"the memory of {pod.who} is not known")
        script = FIND.format(program="java") + STARVE.format(chunk=CHUNK_MIB, chunks=limit_mib // CHUNK_MIB)
        word = Word(script, "starve")
        return ArmedSignal(self._drivers.cluster.enter(pod.name, pod.container, script), pod.who, word)

    def _disarm(self) -> None:
        for armed in self._armed.values():
            armed.close()
        self._armed.clear()
