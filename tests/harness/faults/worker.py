"""Python workers: killed, or stopped for longer than Spark waits for a sign of life."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from infra.embedded.process import identity
from tests.harness.adapters.drivers import Struck
from tests.harness.adapters.events import Watch
from tests.harness.faults.fault import Fault, killed, process_of
from tests.harness.faults.healing import Healing
from tests.harness.faults.stopped import Stopped

POLL_S = 0.2


class KilledWorker(Fault):
    """The worker that announced a step gets SIGKILL; its task runs again in another one."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._struck: Struck
        self._event: Mapping[str, Any] = {}

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        self._event = event
        self._struck = self._blow(event["pid"])
        return [self._struck]

    def after(self) -> list[str]:
        """The worker that announced a step of the same shard since, of this epoch or, if it was done, a later one."""
        who, at = self._struck
        steps = self._watch.steps_after(self._event, at)
        told = [one["pid"] for one in steps if one["pid"] != self._event["pid"]]
        return [found for pid in told[:20] if (found := identity(pid)) is not None and found != who][:1]

    def _blow(self, pid: int) -> Struck:
        return killed(process_of(pid))


class HungWorker(KilledWorker):
    """The worker that announced a step stands still; Spark has to find out and to end it.

    Spark 4.2 sends SIGTERM (`ProcessHandle.destroy`), which reaches a stopped process when it is continued.

    Args:
        watch: what is announced.
        longest_s: it is continued then at the latest.
        healing: continues it whatever happens.
        ended: ends the wait early.
    """

    lasting = True

    def __init__(self, watch: Watch, longest_s: float, healing: Healing, ended: threading.Event) -> None:
        super().__init__(watch)
        self._longest_s, self._healing, self._ended = longest_s, healing, ended
        self._stopped: Stopped

    def endure(self) -> None:
        deadline = time.monotonic() + self._longest_s
        while not self._stopped.gone() and time.monotonic() < deadline and not self._ended.wait(POLL_S):
            pass

    def heal(self) -> None:
        self._stopped.resume()

    def after(self) -> list[str]:
        """As for a killed one; the same worker where it outlived the stop."""
        return super().after() or ([] if self._stopped.gone() else [self._struck[0]])

    def evidence(self) -> dict[str, Any]:
        return {"stopped_s": self._stopped.stopped_s}

    def _blow(self, pid: int) -> Struck:
        self._stopped = Stopped("python worker", [process_of(pid)], self._healing)
        return self._stopped.stop()
