"""SIGKILL of every role of the embedded stack, short stalls of executors and cuts: what a demo has time for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.harness.adapters.events import Watch
from tests.harness.adapters.supervised import SupervisedDrivers
from tests.harness.adapters.tcp_link import TcpLink
from tests.harness.faults.cut_arsenal import link_cuts
from tests.harness.faults.driver import KilledDriver
from tests.harness.faults.executor import EndedExecutors
from tests.harness.faults.healing_arsenal import HealingArsenal, Makers
from tests.harness.faults.server import KilledServer, Restartable
from tests.harness.faults.stall_arsenal import HEARTBEATS_S, executor_stalls
from tests.harness.faults.worker import KilledWorker
from tests.harness.mixture import BROKER, DRIVER, OBJECT_STORE, PYTHON_WORKER, SIGKILL
from tests.harness.schedule import EVERY_EXECUTOR, EXECUTOR

DOWN_S = 1.0
"""Between a killed server's end and its start."""


@dataclass
class Kills(HealingArsenal):
    """What the demo strikes with; only a cut needs something between the pipeline and its servers.

    Attributes:
        drivers: and their executors and workers.
        watch: what they announce.
        broker: of the stack.
        object_store: of the stack.
        cuts: links that can be cut, by the target of the cut; none where the plan has no cut.
    """

    torn_down = True

    drivers: SupervisedDrivers
    watch: Watch
    broker: Restartable
    object_store: Restartable
    cuts: Mapping[str, TcpLink] = field(default_factory=dict)

    def _makers(self) -> Makers:
        servers = {BROKER: self.broker, OBJECT_STORE: self.object_store}
        return {
            (SIGKILL, EXECUTOR): lambda: EndedExecutors(self.drivers, SIGKILL, everyone=False),
            (SIGKILL, EVERY_EXECUTOR): lambda: EndedExecutors(self.drivers, SIGKILL, everyone=True),
            (SIGKILL, DRIVER): lambda: KilledDriver(self.drivers, self.watch),
            (SIGKILL, PYTHON_WORKER): lambda: KilledWorker(self.watch),
            (SIGKILL, BROKER): lambda: KilledServer(self.broker, DOWN_S, self.healing, self.ended),
            (SIGKILL, OBJECT_STORE): lambda: KilledServer(self.object_store, DOWN_S, self.healing, self.ended),
            **executor_stalls(self.drivers, self.healing, self.ended, HEARTBEATS_S),
            **link_cuts(self.cuts, servers, self._drawn_cuts, self.healing, self.ended),
        }
