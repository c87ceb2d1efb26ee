"""The kills of the card ledger: whoever announced the step is held there until it has ended."""

from __future__ import annotations

from dataclasses import dataclass

from tests.harness.adapters.drivers import SIGKILL
from tests.harness.adapters.events import Watch
from tests.harness.adapters.hold import Hold
from tests.harness.adapters.pod_hold import PodHold
from tests.harness.adapters.supervised import SupervisedDrivers
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.faults.cluster_driver import EndedDriver
from tests.harness.faults.driver import KilledDriver
from tests.harness.faults.executor import EndedExecutors
from tests.harness.faults.healing_arsenal import HealingArsenal, Makers
from tests.harness.faults.transaction import Lost
from tests.harness.schedule import DRIVER, EXECUTOR


@dataclass
class CardKills(HealingArsenal):
    """Executors and drivers as processes, SIGKILLed while the task that announced the step is held there."""

    torn_down = True

    drivers: SupervisedDrivers
    watch: Watch
    hold: Hold

    def _makers(self) -> Makers:
        drivers, watch = self.drivers, self.watch
        return {
            (SIGKILL, EXECUTOR): lambda: Lost(
                EndedExecutors(drivers, SIGKILL, everyone=False), self.hold, self.healing
            ),
            (SIGKILL, DRIVER): lambda: Lost(KilledDriver(drivers, watch), self.hold, self.healing),
        }


@dataclass
class PodCardKills(HealingArsenal):
    """The same in pods: the container of the task that was held has ended."""

    torn_down = False

    drivers: SupervisedPods
    watch: Watch
    hold: PodHold

    def _makers(self) -> Makers:
        drivers, watch, hold, healing = self.drivers, self.watch, self.hold, self.healing
        return {
            (SIGKILL, EXECUTOR): lambda: Lost(
                EndedExecutors(drivers, SIGKILL, everyone=False), hold, healing, hold.gone
            ),
            (SIGKILL, DRIVER): lambda: Lost(HeldDriver(drivers, watch), hold, healing, hold.gone),
        }


class HeldDriver(EndedDriver):
    """The driver of executors of which one is to be held: they are waited for too."""

    def arm(self) -> None:
        super().arm()
        self._drivers.await_executors()
