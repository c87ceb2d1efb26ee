"""Lag: a driver that is away while records come, and a partition or a gateway whose records come later than others."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from tests.harness.adapters.drivers import Struck
from tests.harness.adapters.events import Watch
from tests.harness.adapters.supervised import SupervisedDrivers
from tests.harness.faults.driver import find_successor
from tests.harness.faults.fault import Lasting, now_ms
from tests.harness.faults.healing import Debt, Healing
from tests.harness.lag_sorts import GATEWAY, HELD_BACK, PARTITION
from tests.harness.spread import PARTITIONS
from tests.harness.subject import Subject
from tests.harness.workload.gateways import GATEWAYS
from tests.harness.workload.held_back import HeldBack, Name


class AwayDriver(Lasting):
    """The driver gets SIGKILL, and the next one is not started before `planned_s` have passed.

    Args:
        drivers: whose driver.
        watch: what is announced.
        healing: lets drivers be started whatever happens.
    """

    def __init__(self, drivers: SupervisedDrivers, watch: Watch, healing: Healing) -> None:
        super().__init__(healing)
        self._drivers, self._watch = drivers, watch
        self._debt = Debt("let drivers be started again", partial(drivers.keep_away, None))
        self._struck: Struck

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        self._struck = self._healing.strike(self._debt, self._blow)
        return [self._struck]

    def after(self) -> list[str]:
        return find_successor(self._drivers, self._watch, *self._struck)

    def evidence(self) -> dict[str, Any]:
        return {"planned_s": self._seconds}

    def _blow(self) -> Struck:
        # Before the kill, since who supervises drivers looks twenty times a second. A harness that hangs keeps nobody
        # away for ever.
        self._drivers.keep_away(time.monotonic() + self._seconds)
        return self._drivers.kill_driver()


class KeptBack(Lasting):
    """Records are kept back as if their partition's leader were away, or their gateway offline; then they come.

    Args:
        held: keeps them back.
        name: of whose records, as `held` knows it.
        who: as the history calls it.
        healing: lets them go whatever happens.
    """

    def __init__(self, held: HeldBack, name: Name, who: str, healing: Healing) -> None:
        super().__init__(healing)
        self._held, self._name, self._who = held, name, who
        self._debt = Debt(f"let go what is kept back of {who}", self._let_go)
        self._kept = 0

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        self._healing.strike(self._debt, partial(self._held.hold, self._name))
        return [(self._who, now_ms())]

    def after(self) -> list[str]:
        return [self._who]

    def landed(self) -> bool:
        """Whether a record was kept back."""
        return self._kept > 0

    def evidence(self) -> dict[str, Any]:
        return {"planned_s": self._seconds, "held_s": self._debt.lasted_s or 0.0, "kept": self._kept}

    def _let_go(self) -> None:
        self._kept = self._kept or self._held.kept(self._name)
        self._held.let_go(self._name)


@dataclass(frozen=True)
class Lags:
    """Makes lags of a run: each partition and gateway once before one of its kind comes twice, in an order of the seed.

    Attributes:
        held: of the run's sender.
        partitions: that lag, one after the other.
        gateways: that are away, one after the other.
    """

    held: HeldBack
    partitions: Iterator[int]
    gateways: Iterator[str]

    @classmethod
    def of(cls, held: HeldBack, partitions: int, seed: int) -> Self:
        """Those of a topic with so many partitions."""
        order = random.Random(f"partitions of {seed}").sample(range(partitions), partitions)
        names = random.Random(f"gateways of {seed}").sample(GATEWAYS, len(GATEWAYS))
        return cls(held, itertools.cycle(order), itertools.cycle(names))

    def partition(self, healing: Healing) -> KeptBack:
        """The next one lags."""
        number = next(self.partitions)
        return KeptBack(self.held, number, f"partition {number}", healing)

    def gateway(self, healing: Healing) -> KeptBack:
        """The next one is away: it sends nothing, and says nothing."""
        name = next(self.gateways)
        return KeptBack(self.held, name, f"gateway {name}", healing)

    def makers(self, healing: Healing) -> dict[tuple[str, str], Callable[[], KeptBack]]:
        """What makes them, by kind and target."""
        return {
            (HELD_BACK, PARTITION): partial(self.partition, healing),
            (HELD_BACK, GATEWAY): partial(self.gateway, healing),
        }


def lags_of(subject: Subject, seed: int) -> Lags | None:
    """What lets partitions lag; None where the sender waits for the chain."""
    return None if subject.rate is None else Lags.of(subject.held, PARTITIONS, seed)
