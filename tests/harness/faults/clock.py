"""The clock of the driver is stepped while it runs, forwards or backwards, and later set right again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra.embedded.process import identity
from tests.harness.adapters.driver_clock import DriverClock
from tests.harness.adapters.drivers import Struck
from tests.harness.adapters.events import Watch
from tests.harness.adapters.supervised import SupervisedDrivers
from tests.harness.faults.driver import find_successor, running
from tests.harness.faults.fault import Lasting, name_process, now_ms, process_of
from tests.harness.faults.healing import Debt, Healing

STEPS_S = (120, -120, 3600, -3600)
"""Beyond the time-outs of Spark in these runs, or beyond the quarter of an hour by which S3 lets a signature be off."""
NAMED = "clock"
"""A driver that ends of its clock says so."""


class SteppedClock(Lasting):
    """The clock of the driver, and of any that starts meanwhile, is off by a step for some seconds.

    Whoever works then is the same driver, or one that took over after the first had ended of it by itself.

    Args:
        drivers: whose driver.
        watch: what is announced.
        clock: that of the drivers.
        step_s: by how much.
        seconds: how long; longer, until an announcement or a driver's last words show the step.
        longest_s: at most so long.
        healing: sets it right whatever happens.
    """

    # What goes wrong shows in the next epochs: with the clock wrong, and when it jumps back.
    flowing = True
    wants_records = True

    def __init__(
        self,
        drivers: SupervisedDrivers,
        watch: Watch,
        clock: DriverClock,
        step_s: int,
        *,
        seconds: float,
        longest_s: float,
        healing: Healing,
    ) -> None:
        super().__init__(healing, seconds)
        self._drivers, self._watch, self._clock = drivers, watch, clock
        self.step_s, self._longest_s = step_s, longest_s
        self._debt = Debt(f"set the drivers' clock right ({step_s:+} s)", self._set_right)
        self._struck: Struck
        self._former: list[int] = []
        self._healed_at: int | None = None

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        who = name_process(process_of(running(self._drivers).pid))
        self._former = list(self._drivers.last_words)
        self._healing.strike(self._debt, self._step)
        self._struck = who, now_ms()
        return [self._struck]

    def endure(self) -> None:
        self._last(self._longest_s)

    def heal(self) -> None:
        super().heal()
        if self._healed_at is None:
            self._healed_at = now_ms()

    def after(self) -> list[str]:
        """Who works, once an epoch was published by the right clock: who was struck, or who has taken over."""
        if self._healed_at is None or not self._watch.find_announced("epoch", self._healed_at, state="published"):
            return []
        pid = self._drivers.driver
        who = identity(pid) if isinstance(pid, int) else None
        return [who] if who == self._struck[0] else find_successor(self._drivers, self._watch, *self._struck)

    def landed(self) -> bool:
        """Whether a driver showed that it saw the step: by the date of what it announced, or in its last words."""
        with self._watch.changed:
            told = any("told_t" in one and one["t"] >= self._struck[1] for one in self._watch.seen)
        return told or any(NAMED in words.lower() for words in self._ends())

    def evidence(self) -> dict[str, Any]:
        ends = self._ends()
        return {"clock_step_s": self.step_s, **({"refusal": ends[-1]} if ends else {})}

    def _ends(self) -> list[str]:
        """Last words of drivers that ended by themselves since the strike."""
        return [words for pid, words in self._drivers.last_words.items() if pid not in self._former]

    def _step(self) -> None:
        self._watch.note_step(self.step_s * 1000)
        self._drivers.under = f"a clock off by {self.step_s:+} s"
        self._clock.step(self.step_s)

    def _set_right(self) -> None:
        self._clock.right()
        self._drivers.under = None
