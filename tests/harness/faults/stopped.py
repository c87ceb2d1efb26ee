"""Processes that stand still (SIGSTOP) until they are continued (SIGCONT), and for how long they did."""

from __future__ import annotations

import signal
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import psutil

from tests.harness.adapters.drivers import NoProcessError, Struck
from tests.harness.faults.fault import Lasting, name_process, now_ms
from tests.harness.faults.healing import Debt, Healing

STANDS_S, POLL_S = 2.0, 0.002


class Stopped:
    """A process and what stands still with it.

    Args:
        name: for messages.
        processes: the one that counts as struck first, in the order of the stop.
        healing: has them continued whatever happens.

    Attributes:
        debt: to continue them, and for how long they stood still.
    """

    def __init__(self, name: str, processes: Sequence[psutil.Process], healing: Healing) -> None:
        self._processes, self._healing = list(processes), healing
        self._who = name_process(self._processes[0])
        self.debt = Debt(f"continue {name} {self._processes[0].pid}", self._continue)

    def stop(self) -> Struck:
        """Stop them all; who, and when all stood still. Raises NoProcessError, with all of them continued."""
        return self._healing.strike(self.debt, self._stop)

    def gone(self) -> bool:
        """Whether the first one has ended."""
        return not _lives(self._processes[0])

    def all_gone(self) -> bool:
        """Whether all of them have ended: nobody is left who stands still."""
        return not any(_lives(one) for one in self._processes)

    def _stop(self) -> Struck:
        for one in self._processes:
            with suppress(psutil.NoSuchProcess):
                one.send_signal(signal.SIGSTOP)
        if not self._stands():
            raise NoProcessError(f"{self.debt.what}: it does not stand still")
        return self._who, now_ms()

    def _stands(self) -> bool:
        """Whether all of them that are left stand still soon, the first one among them."""
        deadline = time.monotonic() + STANDS_S
        while not self.gone():
            # Asked before it looks: a machine that itself stood still has to look once more.
            last = time.monotonic() > deadline
            if all(_still(one) for one in self._processes):
                return True
            if last:
                return False
            time.sleep(POLL_S)
        return False

    def _continue(self) -> None:
        for one in reversed(self._processes):
            with suppress(psutil.NoSuchProcess):
                one.send_signal(signal.SIGCONT)


class Standstill(Lasting):
    """A fault of which that is all: they stand still for some seconds, and go on.

    Args:
        name: for messages.
        healing: continues them whatever happens.
        seconds: for so long.
    """

    _stopped: Stopped
    _struck: Struck

    def __init__(self, name: str, healing: Healing, seconds: float) -> None:
        super().__init__(healing, seconds)
        self._name = name

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        self._stopped = Stopped(self._name, self._victims(event), self._healing)
        self._debt, self._struck = self._stopped.debt, self._stopped.stop()
        return [self._struck]

    def evidence(self) -> dict[str, Any]:
        return {"stopped_s": self._debt.lasted_s}

    @abstractmethod
    def _victims(self, event: Mapping[str, Any]) -> list[psutil.Process]:
        """Who is to stand still, the one that counts as struck first. Raises NoProcessError."""


def _still(one: psutil.Process) -> bool:
    """Whether it stands still, or has ended."""
    try:
        return one.status() in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def _lives(one: psutil.Process) -> bool:
    try:
        return bool(one.is_running() and one.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
