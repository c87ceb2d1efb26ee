"""Lag: a driver that is away while records come, and a partition whose records come later than all others."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from tests.harness.adapters.drivers import NoProcessError, Struck
from tests.harness.adapters.events import Watch
from tests.harness.adapters.supervised import SupervisedDrivers
from tests.harness.faults.driver import KilledDriver
from tests.harness.faults.fault import Fault, now_ms
from tests.harness.faults.healing import Debt, Healing
from tests.harness.schedule import PlannedFault
from tests.harness.workload.held_back import HeldBack


class AwayDriver(KilledDriver):
    """The driver gets SIGKILL, and the next one is not started before `planned_s` have passed.

    Args:
        drivers: whose driver.
        watch: what is announced.
        healing: lets drivers be started whatever happens.
        ended: ends the wait early.
    """

    lasting = True

    def __init__(self, drivers: SupervisedDrivers, watch: Watch, healing: Healing, ended: threading.Event) -> None:
        super().__init__(drivers, watch)
        self._healing, self._ended = healing, ended
        self._debt = Debt("let drivers be started again", partial(drivers.keep_away, None))
        self._planned_s = 0.0

    def prepare(self, planned: PlannedFault) -> None:
        assert planned.planned_s is not None, "it lasts"
        self._planned_s = planned.planned_s

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        # Before the blow, since who supervises drivers looks twenty times a second. A harness that hangs keeps
        # nobody away for ever.
        self._healing.owe(self._debt)
        self._drivers.keep_away(time.monotonic() + self._planned_s)
        try:
            return super().strike(event)
        except NoProcessError:
            self.heal()
            raise

    def endure(self) -> None:
        self._ended.wait(self._planned_s)

    def heal(self) -> None:
        self._healing.pay(self._debt)

    def evidence(self) -> dict[str, Any]:
        return {"planned_s": self._planned_s}


class LaggingPartition(Fault):
    """What is sent to one partition is kept back, as if its leader were away or its gateway offline; then it comes.

    Args:
        held: keeps it back.
        partition: of the input topic.
        healing: lets it go whatever happens.
        ended: ends the wait early.
    """

    lasting = True

    def __init__(self, held: HeldBack, partition: int, healing: Healing, ended: threading.Event) -> None:
        self._held, self._partition = held, partition
        self._who = f"partition {partition}"
        self._healing, self._ended = healing, ended
        self._debt = Debt(f"let go what is kept back of {self._who}", partial(held.let_go, partition))
        self._planned_s, self._kept = 0.0, 0
        self._began_s = self._held_s = 0.0

    def prepare(self, planned: PlannedFault) -> None:
        assert planned.planned_s is not None, "it lasts"
        self._planned_s = planned.planned_s

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        self._healing.owe(self._debt)
        self._began_s = time.monotonic()
        self._held.hold(self._partition)
        return [(self._who, now_ms())]

    def endure(self) -> None:
        self._ended.wait(self._planned_s)

    def heal(self) -> None:
        if not self._held_s:
            self._kept, self._held_s = self._held.kept(self._partition), time.monotonic() - self._began_s
        self._healing.pay(self._debt)

    def after(self) -> list[str]:
        return [self._who]

    def landed(self) -> bool:
        """Whether a record was kept back."""
        return self._kept > 0

    def evidence(self) -> dict[str, Any]:
        return {"planned_s": self._planned_s, "held_s": round(self._held_s, 3), "kept": self._kept}


@dataclass(frozen=True)
class Lags:
    """Makes lagging partitions of a run: each one once before one lags twice, in an order of the seed.

    Attributes:
        held: of the run's sender.
        partitions: that lag, one after the other.
    """

    held: HeldBack
    partitions: Iterator[int]

    @classmethod
    def of(cls, held: HeldBack, partitions: int, seed: int) -> Self:
        """Those of a topic with so many partitions."""
        order = random.Random(f"partitions of {seed}").sample(range(partitions), partitions)
        return cls(held, itertools.cycle(order))

    def fault(self, healing: Healing, ended: threading.Event) -> LaggingPartition:
        """The next one."""
        return LaggingPartition(self.held, next(self.partitions), healing, ended)
