"""SIGKILL of every role of the embedded stack, short stalls of executors and cuts: what a demo has time for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from tests.harness.adapters.drivers import SIGKILL
from tests.harness.adapters.events import Watch
from tests.harness.adapters.supervised import SupervisedDrivers
from tests.harness.adapters.tcp_link import TcpLink
from tests.harness.faults.cut_arsenal import link_cuts
from tests.harness.faults.driver import KilledDriver
from tests.harness.faults.executor import EndedExecutors
from tests.harness.faults.healing import Healing
from tests.harness.faults.healing_arsenal import DrawingArsenal, Makers
from tests.harness.faults.server import KilledServer, Restartable
from tests.harness.faults.stall_arsenal import HEARTBEATS_S, executor_stalls
from tests.harness.faults.worker import KilledWorker
from tests.harness.platform_sorts import BROKER, OBJECT_STORE
from tests.harness.schedule import DRIVER, EVERY_EXECUTOR, EXECUTOR, PYTHON_WORKER

DOWN_S = 1.0
"""Between a killed server's end and its start."""


def kill_makers(
    drivers: SupervisedDrivers,
    watch: Watch,
    servers: Mapping[str, Restartable],
    down_s: Mapping[str, float],
    *,
    healing: Healing,
) -> Makers:
    """SIGKILL of executors, driver and worker, and of servers.

    Args:
        drivers: and their executors and workers.
        watch: what they announce.
        servers: by role.
        down_s: between the end and the start of those that are killed, by role.
        healing: starts them whatever happens.
    """
    return {
        (SIGKILL, EXECUTOR): partial(EndedExecutors, drivers, SIGKILL, everyone=False),
        (SIGKILL, EVERY_EXECUTOR): partial(EndedExecutors, drivers, SIGKILL, everyone=True),
        (SIGKILL, DRIVER): partial(KilledDriver, drivers, watch),
        (SIGKILL, PYTHON_WORKER): partial(KilledWorker, watch),
        **{(SIGKILL, role): partial(KilledServer, servers[role], seconds, healing) for role, seconds in down_s.items()},
    }


@dataclass
class Kills(DrawingArsenal):
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
        down_s = dict.fromkeys(servers, DOWN_S)
        return {
            **kill_makers(self.drivers, self.watch, servers, down_s, healing=self.healing),
            **executor_stalls(self.drivers, self.healing, HEARTBEATS_S),
            **link_cuts(self.cuts, servers, self._drawn_cuts, self.healing),
        }
