"""Whether a pipeline works: its driver has shown an epoch, or has nothing to do. That it runs says little.

A driver that is refused, or whose executors never come, runs too, for a while. What it tells Prometheus begins at
nothing with every driver, so it is of the newest generation; it is read through the API server.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from infra.cluster.api import ApiError, ClusterError, Reader
from infra.operate.facts import APPLICATIONS
from infra.operate.objects import PIPELINE, ROLE, Application, Pod
from infra.operate.reasons import last_error_line, last_named_error, why_not
from infra.values.network import METRICS_PORT

PUBLISHED: Final = "effectively_once_published_timestamp_seconds"
READS: Final = "effectively_once_input_retention_seconds"
"""Other than 0 once the driver has taken the chain over, has finished what was declared, and asks for its input."""
UNREAD: Final = "effectively_once_input_unread_offsets"
ALIVE: Final = "effectively_once_alive_timestamp_seconds"
"""0 until a trigger of the driver's query has ended."""
PAUSED: Final = "effectively_once_paused"
STANDBY: Final = "effectively_once_standby"
"""1 while a driver waits for another one's end: that one is asked too, and whichever works shows that both do."""
DRAINED: Final = "the pipeline is drained"
"""What a driver says that an operator's wish has stopped; the next one will, too."""
EVERY_S: Final = 2.0
LIMIT_S: Final = 600.0
SILENT_S: Final = 120.0
"""After so long a driver that runs and cannot be asked is believed: not every API server reaches pods."""
ENDED_MAX: Final = 3
NOBODY: Final = "no driver was seen"


class NotReadyError(ClusterError):
    """A pipeline does not work; the message says why, as far as anybody says it."""


@dataclass
class Wait:
    """The wait for one pipeline. `clock` and `sleep` are those of `time`."""

    cluster: Reader
    namespace: str
    pipeline: str
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _silent_since: dict[str, float | None] = field(default_factory=dict)
    _last: str = NOBODY
    _end: str = ""
    _there: int = 1

    def until_ready(self) -> str:
        """Return by what it is known. Raises NotReadyError after some drivers that ended, or when the time is up."""
        began = self.clock()
        while True:
            try:
                if found := self._look():
                    return found
            except ApiError as error:
                self._last = str(error)
            ended = len(self._silent_since) - self._there
            if ended >= ENDED_MAX:
                raise self._not_ready(f"{ended} drivers ended one after the other", self._end or self._last)
            if self.clock() - began > LIMIT_S:
                raise self._not_ready(f"no epoch within {LIMIT_S:.0f} s", self._last)
            self.sleep(EVERY_S)

    def _not_ready(self, what: str, last: str) -> NotReadyError:
        return NotReadyError(
            f"pipeline {self.pipeline} is not ready: {what}; last: {last}. `make logs PIPELINE={self.pipeline}`"
        )

    def _look(self) -> str | None:
        labels = f"{PIPELINE}={self.pipeline},{ROLE}=driver"
        items = self.cluster.get(f"/api/v1/namespaces/{self.namespace}/pods", labelSelector=labels).get("items") or ()
        # One that waits beside it has not ended.
        self._there = max(1, len(items))
        for driver in map(Pod.model_validate, items):
            if driver.metadata.deletion_timestamp is None and (found := self._judge(driver)):
                return found
        return None if items else self._explain_suspension()

    def _explain_suspension(self) -> str | None:
        """Say whether somebody has suspended it, as a run of the harness does while it needs the room."""
        path = f"{APPLICATIONS.format(self.namespace)}/{self.pipeline}"
        suspended = Application.model_validate(self.cluster.get(path)).spec.suspend
        return "it is suspended, which its settings do not ask for" if suspended else None

    def _judge(self, driver: Pod) -> str | None:
        since = self._silent_since.setdefault(driver.metadata.uid, None)
        path = f"/api/v1/namespaces/{self.namespace}/pods/{driver.metadata.name}"
        if driver.status.phase not in ("Running", "Failed", "Succeeded"):
            self._last = why_not(driver) or self._last
            return None
        log = self._text(f"{path}/log", tailLines="50") or ""
        if driver.status.phase != "Running":
            self._end = self._last = last_error_line(log) or "it says nothing"
            return "it is drained" if DRAINED in log else None
        # The operator removes a driver as soon as it has failed: it may be seen while it runs, and never again.
        self._end = last_named_error(log) or self._end
        now = self.clock()
        told = self._text(f"{path}:{METRICS_PORT}/proxy/metrics")
        if told is None:
            self._last = "its driver runs and does not say yet what it does"
            began = self._silent_since[driver.metadata.uid] = now if since is None else since
            return "its driver runs; what it does cannot be asked from here" if now - began > SILENT_S else None
        return self._judge_metrics(told)

    def _judge_metrics(self, told: str) -> str | None:
        if _gauge(told, PUBLISHED):
            return "its driver has published an epoch"
        if not _gauge(told, READS):
            if not _gauge(told, STANDBY):
                self._last = "its driver has not taken the chain over, or is still at the epoch that was declared"
            elif self._last == NOBODY:
                self._last = "its driver waits as a standby, and no other one was seen"
            return None
        alive, unread = _gauge(told, ALIVE), _gauge(told, UNREAD)
        if alive is None:
            return "its driver asks for its input; its version says no more"
        if _gauge(told, PAUSED):
            return "it is paused"
        if unread:
            self._last = f"its driver has published nothing, and {unread:,.0f} offsets of its input are unread"
            return None
        self._last = "its driver has taken the chain over, and no trigger of its query has ended"
        return "its driver has found nothing to read" if alive else None

    def _text(self, path: str, **query: str) -> str | None:
        try:
            return self.cluster.text(path, **query)
        except ClusterError:
            return None


def _gauge(text: str, name: str) -> float | None:
    """Return a gauge of a text as Prometheus has it, the sum where it has labels; None where it has none."""
    lines = [line.rpartition(" ") for line in text.splitlines() if line.startswith((f"{name}{{", f"{name} "))]
    return sum(float(value) for _, _, value in lines) if lines else None
