"""Two drivers of one pipeline, both at work: the first one learns from the chain that it was replaced."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from infra.embedded.process import Child
from tests.harness.adapters.drivers import Struck
from tests.harness.adapters.events import Watch
from tests.harness.adapters.supervised import SupervisedDrivers
from tests.harness.faults.driver import STALE_S, KilledDriver, refusal, running
from tests.harness.faults.fault import name_process, now_ms, process_of


class SecondDriver(KilledDriver):
    """Another driver starts beside the one that runs, which nobody stops or kills.

    Args:
        drivers: whose driver.
        watch: what is announced.
        longest_s: how long the other one may take to take the chain over.
        ended: ends the wait early.
    """

    lasting = True
    # The first driver publishes while the other one starts, and learns of it from the next epoch.
    flowing = True
    wants_records = True
    after_s = STALE_S

    def __init__(self, drivers: SupervisedDrivers, watch: Watch, longest_s: float, ended: threading.Event) -> None:
        super().__init__(drivers, watch)
        self._longest_s, self._ended = longest_s, ended
        self._first: Child

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        self._first = running(self._drivers)
        self._struck = name_process(process_of(self._first.pid)), now_ms()
        self._drivers.start_beside()
        return [self._struck]

    def endure(self) -> None:
        taken_over = super().after

        def done() -> bool:
            return bool(taken_over()) or self._ended.is_set()

        self._watch.wait_for("the second driver to take over", done, self._longest_s, self._drivers.alive)

    def after(self) -> list[str]:
        """The second driver, once the first one has ended."""
        return [] if self._first.running() else super().after()

    def landed(self) -> bool:
        """Whether the first one ended by its refusal."""
        return refusal(self._first) is not None

    def evidence(self) -> dict[str, Any]:
        return {"refusal": refusal(self._first)}
