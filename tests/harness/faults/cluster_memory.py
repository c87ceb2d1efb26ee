"""Executors out of memory: processes beside the JVM take what its container has left, and the kernel kills."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tests.harness.adapters.armed import ArmedSignal, Word
from tests.harness.adapters.drivers import DELETE_NOW, NoProcessError, Struck
from tests.harness.adapters.pod_log import EXECUTOR, Pod
from tests.harness.adapters.pods import PodDrivers
from tests.harness.adapters.server_pods import LOCATE
from tests.harness.faults.fault import Fault, now_ms

REASON = "OOMKilled"
STARVED_S, TOLD_S, LOOK_S = 30.0, 10.0, 0.25
TAKERS = 16
"""Of several processes the kernel kills the one with the greatest sum of its memory and its adjustment, of which 1000
are worth the container's whole limit. The JVM's can be raised to 1000 and no further, and that of every process of a
small pod is some 950 already: one process that takes all there is left is greater than the JVM. Sixteen are not."""
# With control groups of version 2 all processes of the container are killed together. The interpreter is there before
# the word, so that memory runs short a moment after it. bytearray fills what it takes with zeros, so it is really
# taken, and kept until the container ends; where nothing comes of it, it ends by itself. The bound is the whole
# container's: without a limit it would otherwise take the machine's. The session lasts as long as the first process.
STARVE = """
exec python3 -c '
import os, sys, time
victim = sys.argv[1]
print("armed", victim, flush=True)
sys.stdin.readline() or sys.exit(1)
with open("/proc/" + victim + "/oom_score_adj", "w") as score:
    score.write("1000")
print("starve", victim, flush=True)
any(os.fork() == 0 for _ in range({takers} - 1))
taken = bytearray({share_mib} << 20)
time.sleep({longest_s})
' "$victim"
"""


class Starving(ArmedSignal):
    """A session in a container that takes its memory at the word, and ends when the container does."""

    def over(self, ended: threading.Event) -> int:
        """Wait until the session has ended; when it had (ms). Raises NoProcessError when it does not in time."""
        deadline = time.monotonic() + STARVED_S
        while time.monotonic() < deadline and not ended.is_set():
            with suppress(Exception):
                self._session.readline_stdout(timeout=LOOK_S)
            if not self._session.is_open():
                return now_ms()
        raise NoProcessError(f"{self.who} did not run out of memory within {STARVED_S:.0f} s")


class StarvedExecutor(Fault):
    """The executor that announced a step runs out of its container's memory; it counts if Kubernetes says so.

    A declaration is no executor's: then it is one of them, whose shuffle files the others read.

    Args:
        drivers: whose executors.
        ended: ends the wait early.
        of: draws who it is after a declaration.
    """

    def __init__(self, drivers: PodDrivers, *, ended: threading.Event, of: int = 0) -> None:
        self._drivers, self._ended, self._of = drivers, ended, of
        self._armed: dict[str, Starving] = {}
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
                    self._armed[pod.uid] = self._enter(pod)

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        pod = self._choose(event)
        try:
            if pod is None or pod.role != EXECUTOR or not pod.runs:
                raise NoProcessError(f"pod {event.get('pod')} does not run any more")
            self._pod, self._before = pod, {pod.who, *self._drivers.executors()}
            armed = self._armed.get(pod.uid) or self._armed.setdefault(pod.uid, self._enter(pod))
            armed.word()
            at = armed.over(self._ended)
            self._see_why()
        finally:
            self._disarm()
        return [(pod.who, at)]

    def _choose(self, event: Mapping[str, Any]) -> Pod | None:
        if event.get("event") != "epoch":
            return self._drivers.log.pod(str(event.get("pod_uid")))
        there = [pod for pod in self._drivers.log.pods(EXECUTOR) if pod.runs]
        return there[self._of % len(there)] if there else None

    def after(self) -> list[str]:
        return [one for one in self._drivers.executors() if one not in self._before][:1]

    def evidence(self) -> dict[str, Any]:
        return {"ended_as": REASON}

    def _see_why(self) -> None:
        """See that the container ended, for want of memory. Raises NoProcessError when it did not.

        kubelet looks once a second, so the time of the end is that of the session's.
        """
        deadline = time.monotonic() + TOLD_S
        while True:
            now = self._drivers.log.pod(self._pod.uid)
            if now is None or now.ended:
                if now is None or now.reason != REASON:
                    raise NoProcessError(
                        f"{self._pod.who} ended, but not for want of memory: {now.reason if now else ''}"
                    )
                return
            if time.monotonic() > deadline or self._ended.wait(LOOK_S):
                raise NoProcessError(f"{self._pod.who} outlived the process that took its memory")

    def _enter(self, pod: Pod) -> Starving:
        asked = self._drivers.values.get("executors", {})
        limit_mib = int(asked.get("memoryMib", 0)) + int(asked.get("memoryOverheadMib", 0))
        if limit_mib == 0:
            raise NoProcessError(f"the memory of {pod.who} is not known")
        script = starving(limit_mib)
        return Starving(self._drivers.cluster.enter(pod.name, pod.container, script), pod.who, Word(script, "starve"))

    def _disarm(self) -> None:
        for armed in self._armed.values():
            armed.close()
        self._armed.clear()


def starving(limit_mib: int, takers: int = TAKERS) -> str:
    """The script that takes the memory of an executor's container.

    Args:
        limit_mib: of the container (MiB): so much is taken at most, in equal shares.
        takers: how many processes take it.
    """
    share_mib, longest_s = limit_mib // takers, math.ceil(STARVED_S)
    taking = STARVE.format(takers=takers, share_mib=share_mib, longest_s=longest_s)
    return LOCATE.format(program="java") + taking
