"""Which faults a place has: makes the one that a plan names."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from tests.harness.adapters.driver_clock import DriverClock
from tests.harness.adapters.drivers import SIGKILL, Drivers
from tests.harness.adapters.events import Watch
from tests.harness.adapters.hold import Hold
from tests.harness.adapters.spark_requests import Requests
from tests.harness.adapters.store_link import StoreLink
from tests.harness.adapters.supervised import SupervisedDrivers
from tests.harness.adapters.tcp_link import TcpLink
from tests.harness.cluster_sorts import ZOMBIE
from tests.harness.faults.clock import STEPS_S, SteppedClock
from tests.harness.faults.cut_arsenal import link_cuts
from tests.harness.faults.driver import ZombieDriver
from tests.harness.faults.executor import EndedExecutors, StoppedExecutor
from tests.harness.faults.fault import Fault
from tests.harness.faults.healing_arsenal import DrawingArsenal, Makers
from tests.harness.faults.kills import kill_makers
from tests.harness.faults.lag import AwayDriver, Lags
from tests.harness.faults.second_driver import SecondDriver
from tests.harness.faults.server import KilledServer, Restartable, StoppedServer
from tests.harness.faults.slow_disk_arsenal import SlowDisks, slow_disks
from tests.harness.faults.slowable import SlowableServer
from tests.harness.faults.spark_request import request_makers
from tests.harness.faults.stall_arsenal import stalls
from tests.harness.faults.store_answers import StoreAnswers
from tests.harness.faults.transaction import ForgetfulBroker, LongStoppedServer, RestartedServer, TakenId, WhileHeld
from tests.harness.faults.worker import HungWorker
from tests.harness.lag_sorts import AWAY
from tests.harness.mixture import (
    CLOCK,
    ERRORS,
    FORGETS,
    LATE,
    LONG_STOP,
    LOST,
    NO_ROOM,
    PRODUCER,
    RESTART,
    SECOND,
    TAKEN_ID,
)
from tests.harness.platform_sorts import BROKER, OBJECT_STORE, RESULT_STORE, SIGSTOP
from tests.harness.schedule import DRIVER, EVERY_EXECUTOR, EXECUTOR, PYTHON_WORKER, Strike
from tests.harness.spread import NETWORK_S


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
        executor_stop_s: beyond the time-out of heartbeats, which is NETWORK_S here, and the time to look at it.
        worker_hang_s: beyond the pipeline's idle time-out of Python workers (120 s).
        broker_down_s: between a killed broker's end and its start.
        broker_stop_s: within the time-out of transactions.
        broker_long_stop_s: beyond it, which is TRANSACTION_TIMEOUT_S here.
        store_down_s: as for the broker.
        store_stop_s: beyond the time that clients wait for an answer (10 s).
        database_down_s: as for the broker.
        database_stop_s: longer than the result store lets a transaction be idle (10 s).
        store_answers_s: how long answers of the object store go wrong; an epoch and more.
        store_answers_longest_s: so long at most, where nothing was hit yet that the fault is about.
        zombie_s: how long the driver beside a zombie may take to publish, or a second driver to take over.
        clock_s: how long the driver's clock is wrong; some epochs, beyond the time-out of heartbeats.
        clock_longest_s: so long at most, where nothing shows yet that the driver saw it.
    """

    executor_stop_s: float = 25.0
    worker_hang_s: float = 130.0
    broker_down_s: float = 1.0
    broker_stop_s: float = 8.0
    broker_long_stop_s: float = 14.0
    store_down_s: float = 1.0
    store_stop_s: float = 12.0
    database_down_s: float = 1.0
    database_stop_s: float = 12.0
    store_answers_s: float = 8.0
    store_answers_longest_s: float = 40.0
    zombie_s: float = 120.0
    clock_s: float = 20.0
    clock_longest_s: float = 45.0


TRANSACTION_TIMEOUT_S = 10
"""A setting of the pipeline here (60 s by default), for `broker_long_stop_s` to be longer in a run of minutes."""


@dataclass
class EmbeddedArsenal(DrawingArsenal):
    """Every fault of the stack as processes of this machine.

    Attributes:
        drivers: and their executors and workers.
        watch: what they announce.
        broker: of the stack.
        object_store: of the stack.
        link: between the pipeline and the object store.
        hold: holds processes of the pipeline.
        bootstrap: of the broker.
        pipeline: whose transactional ids another producer takes.
        lengths: of faults that last.
        result_store: of the stack; None where there is none.
        clock: of the drivers; None where it cannot be stepped.
        requests: to the drivers; None where they take none.
        network_s: the time-out of heartbeats.
        cuts: links that can be cut, by the target of the cut.
        disks: what slows those of servers; None where none can be.
        lags: keeps back what is sent to a partition or by a gateway; None where the sender waits for the chain.
    """

    torn_down = True

    drivers: SupervisedDrivers
    watch: Watch
    broker: Restartable
    object_store: Restartable
    link: StoreLink
    hold: Hold
    bootstrap: str
    pipeline: str
    lengths: Lengths = field(default_factory=Lengths)
    result_store: Restartable | None = None
    clock: DriverClock | None = None
    requests: Requests | None = None
    network_s: float = NETWORK_S
    cuts: Mapping[str, TcpLink] = field(default_factory=dict)
    disks: SlowDisks | None = None
    lags: Lags | None = None
    _tries: Iterator[int] = field(default_factory=itertools.count, init=False)
    _steps_s: Iterator[int] = field(init=False)

    def __post_init__(self) -> None:
        """Begin with nothing to heal, and with what the seed draws."""
        super().__post_init__()
        # Each step comes once before one comes twice.
        steps_s = list(STEPS_S)
        random.Random(f"clocks of {self.seed}").shuffle(steps_s)
        self._steps_s = itertools.cycle(steps_s)

    def _makers(self) -> Makers:
        drivers, watch, healing, lengths = self.drivers, self.watch, self.healing, self.lengths
        broker, store = self.broker, self.object_store
        long_stop_s = lengths.broker_long_stop_s
        down_s = {BROKER: lengths.broker_down_s, OBJECT_STORE: lengths.store_down_s}
        return {
            **kill_makers(drivers, watch, self._servers, down_s, healing=healing),
            (SIGSTOP, EXECUTOR): lambda: StoppedExecutor(drivers, lengths.executor_stop_s, healing),
            (ZOMBIE, DRIVER): lambda: ZombieDriver(drivers, watch, lengths.zombie_s, healing),
            (SECOND, DRIVER): lambda: SecondDriver(drivers, watch, lengths.zombie_s, healing.ended),
            (SIGSTOP, PYTHON_WORKER): lambda: HungWorker(watch, lengths.worker_hang_s, healing),
            (SIGSTOP, BROKER): lambda: StoppedServer(broker, lengths.broker_stop_s, healing),
            (LONG_STOP, BROKER): lambda: self._while_held(
                LongStoppedServer(broker, long_stop_s, TRANSACTION_TIMEOUT_S, healing)
            ),
            (RESTART, BROKER): lambda: self._while_held(RestartedServer(broker, lengths.broker_down_s, healing)),
            (FORGETS, BROKER): lambda: self._while_held(
                ForgetfulBroker(broker, self.bootstrap, self.pipeline, lengths.broker_down_s, healing)
            ),
            (TAKEN_ID, PRODUCER): lambda: self._while_held(TakenId(self.bootstrap, self.pipeline, watch)),
            (SIGSTOP, OBJECT_STORE): lambda: StoppedServer(store, lengths.store_stop_s, healing),
            **self._of_result_store(),
            **self._of_clock(),
            **stalls(drivers, watch, self._servers, healing, time_out_s=self.network_s, held=self._while_held),
            **request_makers(self.requests, drivers),
            **link_cuts(self.cuts, self._servers, self._drawn_cuts, healing, held=self._while_held),
            **self._of_disks(),
            **self._of_lags(),
            **{(kind, OBJECT_STORE): partial(self._answers, kind) for kind in (ERRORS, LATE, LOST, NO_ROOM)},
        }

    def _of_result_store(self) -> Makers:
        server, lengths, healing = self.result_store, self.lengths, self.healing
        if server is None:
            return {}
        return {
            (SIGKILL, RESULT_STORE): lambda: self._while_held(KilledServer(server, lengths.database_down_s, healing)),
            (SIGSTOP, RESULT_STORE): lambda: self._while_held(StoppedServer(server, lengths.database_stop_s, healing)),
        }

    def _of_clock(self) -> Makers:
        clock, lengths = self.clock, self.lengths
        if clock is None:
            return {}
        return {
            (CLOCK, DRIVER): lambda: SteppedClock(
                self.drivers,
                self.watch,
                clock,
                next(self._steps_s),
                seconds=lengths.clock_s,
                longest_s=lengths.clock_longest_s,
                healing=self.healing,
            )
        }

    def _of_disks(self) -> Makers:
        disks = self.disks
        if disks is None:
            return {}
        servers = {role: SlowableServer(server) for role, server in self._servers.items()}
        return slow_disks(disks, self.drivers, servers, healing=self.healing, held=self._while_held)

    def _of_lags(self) -> Makers:
        lags = self.lags
        if lags is None:
            return {}
        away = partial(AwayDriver, self.drivers, self.watch, self.healing)
        return {(AWAY, DRIVER): away, **lags.makers(self.healing)}

    @property
    def _servers(self) -> dict[str, Restartable]:
        """By role."""
        servers = {BROKER: self.broker, OBJECT_STORE: self.object_store, RESULT_STORE: self.result_store}
        return {role: server for role, server in servers.items() if server is not None}

    def _while_held(self, inner: Fault) -> WhileHeld:
        return WhileHeld(inner, self.hold, self.healing)

    def _answers(self, kind: str) -> StoreAnswers:
        lengths = self.lengths
        return StoreAnswers(
            kind,
            self.link,
            self.object_store,
            seconds=lengths.store_answers_s,
            longest_s=lengths.store_answers_longest_s,
            healing=self.healing,
            rng=random.Random(f"answers {next(self._tries)} of {self.seed}"),
        )
