"""Holds a task of a pipeline in pods at a named point of the protocol: by the files of `Hold`, written by exec."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from effectively_once.points import HELD, HOLD, RELEASE, VARIABLE
from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.pod_log import EXECUTOR, Pod, PodLog
from tests.harness.adapters.pod_shell import ask_shell

FOLDER = "/tmp/points"  # noqa: S108 - of a container, a volume of its own
ENVIRONMENT = {VARIABLE: FOLDER}
"""What driver and executors need."""
AGAIN_S = 0.1
_ASK = """
mkdir -p {folder} && cd {folder} && rm -f {held} {release} {hold} \\
  && printf %s '{asked}' > draft && mv draft {hold} && echo asked
"""
_LOOK = """
cd {folder} 2>/dev/null && [ -f {held} ] && cat {held}
echo
"""
_RELEASE = """
if cd {folder} 2>/dev/null; then rm -f {hold} {held}; touch {release}; fi
echo released
"""


class PodHold:
    """One hold at a time, asked of every pod that runs; one that comes later knows nothing of it.

    Args:
        cluster: where the pods are.
        logs: follow the pods, of a pipeline each.
        roles: of the pods that are asked.
    """

    def __init__(self, cluster: Cluster, logs: Sequence[PodLog], roles: Sequence[str] = (EXECUTOR,)) -> None:
        self._cluster, self._logs, self._roles = cluster, logs, roles
        self._asked: list[Pod] = []

    def ask(self, point: str, **where: Any) -> None:
        """See `Holding`. Raises NoProcessError: a pod cannot be asked."""
        asked = json.dumps({"point": point, **where})
        self._asked = [pod for log in self._logs for role in self._roles for pod in log.pods(role) if pod.runs]
        for pod in self._asked:
            if self._ask(pod, _ASK, asked=asked) != "asked":
                raise NoProcessError(f"{pod.who} does not take what it is to hold")

    def held(self, within_s: float) -> dict[str, Any] | None:
        """See `Holding`."""
        deadline = time.monotonic() + within_s
        while True:
            for pod in self._running():
                with suppress(NoProcessError):
                    text = self._ask(pod, _LOOK)
                    if text:
                        return {**json.loads(text), "pod": pod.name, "pod_uid": pod.uid}
            if time.monotonic() > deadline:
                return None
            time.sleep(AGAIN_S)

    def release(self) -> None:
        """See `Holding`. A pod that has ended holds nobody; one that cannot be reached lets go after a while."""
        for pod in self._running():
            with suppress(NoProcessError):
                self._ask(pod, _RELEASE)
        self._asked = []

    def gone(self, event: Mapping[str, Any]) -> bool:
        """Whether the container of the task that announced an event has ended."""
        pod = self._now(event["pod_uid"])
        return pod is None or pod.ended

    def _running(self) -> list[Pod]:
        now = (self._now(pod.uid) for pod in self._asked)
        return [pod for pod in now if pod is not None and pod.runs]

    def _now(self, uid: str) -> Pod | None:
        return next((pod for log in self._logs if (pod := log.pod(uid)) is not None), None)

    def _ask(self, pod: Pod, script: str, **values: str) -> str:
        """The line that a script answers with."""
        names = {"folder": FOLDER, "hold": HOLD, "held": HELD, "release": RELEASE, **values}
        return ask_shell(self._cluster, pod, script.format(**names))
