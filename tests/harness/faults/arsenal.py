"""Which faults a place has: makes the one that a plan names."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from tests.harness.adapters.drivers import Drivers
from tests.harness.adapters.events import Watch
from tests.harness.adapters.supervised import SupervisedDrivers
from tests.harness.faults.driver import KilledDriver, ZombieDriver
from tests.harness.faults.executor import EndedExecutors, StoppedExecutor
from tests.harness.faults.fault import Fault
from tests.harness.faults.healing import Healing
from tests.harness.faults.server import KilledServer, Restartable, StoppedServer
from tests.harness.faults.worker import HungWorker, KilledWorker
from tests.harness.mixture import (
    BROKER,
    DRIVER,
    OBJECT_STORE,
    PYTHON_WORKER,
    SIGKILL,
    SIGSTOP,
    ZOMBIE,
)
from tests.harness.schedule import EVERY_EXECUTOR, EXECUTOR, Strike


class Arsenal(Protocol):
    """Makes faults, and sees to it that none of them stays."""

    def fault(self, strike: Strike) -> Fault:
        """One of that sort, for one try. Raises ValueError when there is none here."""

    def close(self) -> None:
        """Give up what lasts, undo what is not undone, and say so. Safe to repeat."""


@dataclass(frozen=True)
class ExecutorArsenal:
    """Executors only, wherever they are: all that the demo and a cluster have."""

    drivers: Drivers

    def fault(self, strike: Strike) -> Fault:
        """Executors ended as the kind says."""
        if strike.target not in (EXECUTOR, EVERY_EXECUTOR):
            raise ValueError(f"there is no fault of {strike.target} here")
        return EndedExecutors(self.drivers, strike.kind, everyone=strike.target == EVERY_EXECUTOR)

    def close(self) -> None:
        """Nothing lasts."""


@dataclass(frozen=True)
class Lengths:
    """How long faults last, in seconds.

    Attributes:
        executor_stop_s: beyond the time-out of heartbeats, which is NETWORK_TIMEOUT_S here, and the time to look at it.
        worker_hang_s: beyond the pipeline's idle time-out of Python workers (120 s).
        broker_down_s: between a killed broker's end and its start.
        broker_stop_s: the time-out of transactions (60 s) is beyond what a run of minutes has; ask for more.
        store_down_s: as for the broker.
        store_stop_s: beyond the time that clients wait for an answer (10 s).
        zombie_s: how long the driver beside a zombie may take to publish.
    """

    executor_stop_s: float = 25.0
    worker_hang_s: float = 130.0
    broker_down_s: float = 1.0
    broker_stop_s: float = 8.0
    store_down_s: float = 1.0
    store_stop_s: float = 12.0
    zombie_s: float = 120.0


NETWORK_TIMEOUT_S = 15
HEARTBEATS = {
    "spark.network.timeout": f"{NETWORK_TIMEOUT_S}s",
    "spark.network.timeoutInterval": "3s",
    "spark.executor.heartbeatInterval": "2s",
}
"""Settings of Spark under which `executor_stop_s` is longer than its driver waits for an executor."""


@dataclass
class EmbeddedArsenal:
    """Every fault of the stack as processes of this machine.

    Attributes:
        drivers: and their executors and workers.
        watch: what they announce.
        broker: of the stack.
        object_store: of the stack.
        say: told what was healed at the end.
        lengths: of faults that last.
    """

    drivers: SupervisedDrivers
    watch: Watch
    broker: Restartable
    object_store: Restartable
    say: Callable[[str], None]
    lengths: Lengths = field(default_factory=Lengths)
    ended: threading.Event = field(default_factory=threading.Event, init=False)
    healing: Healing = field(init=False)

    def __post_init__(self) -> None:
        """Begin with nothing to heal."""
        self.healing = Healing(self.say)

    def fault(self, strike: Strike) -> Fault:
        """One of the sort that a strike names."""
        make = self._makers().get((strike.kind, strike.target))
        if make is None:
            raise ValueError(f"there is no fault {strike.kind} of {strike.target} here")
        return make()

    def close(self) -> None:
        """Give up what lasts and undo it; the stack is about to end, so its servers stay down."""
        self.ended.set()
        self.healing.close(torn_down=True)

    def _makers(self) -> dict[tuple[str, str], Callable[[], Fault]]:
        drivers, watch, healing, ended, lengths = self.drivers, self.watch, self.healing, self.ended, self.lengths
        broker, store = self.broker, self.object_store
        return {
            (SIGKILL, EXECUTOR): lambda: EndedExecutors(drivers, SIGKILL, everyone=False),
            (SIGKILL, EVERY_EXECUTOR): lambda: EndedExecutors(drivers, SIGKILL, everyone=True),
            (SIGSTOP, EXECUTOR): lambda: StoppedExecutor(drivers, lengths.executor_stop_s, healing, ended),
            (SIGKILL, DRIVER): lambda: KilledDriver(drivers, watch),
            (ZOMBIE, DRIVER): lambda: ZombieDriver(drivers, watch, lengths.zombie_s, healing, ended),
            (SIGKILL, PYTHON_WORKER): lambda: KilledWorker(watch),
            (SIGSTOP, PYTHON_WORKER): lambda: HungWorker(watch, lengths.worker_hang_s, healing, ended),
            (SIGKILL, BROKER): lambda: KilledServer(broker, lengths.broker_down_s, healing, ended),
            (SIGSTOP, BROKER): lambda: StoppedServer(broker, lengths.broker_stop_s, healing, ended),
            (SIGKILL, OBJECT_STORE): lambda: KilledServer(store, lengths.store_down_s, healing, ended),
            (SIGSTOP, OBJECT_STORE): lambda: StoppedServer(store, lengths.store_stop_s, healing, ended),
        }
