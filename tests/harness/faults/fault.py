"""What every fault has in common, whatever it strikes."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import psutil

from infra.embedded.process import identity
from tests.harness.adapters.drivers import NoProcessError, Struck
from tests.harness.faults.healing import Debt, Healing
from tests.harness.schedule import PlannedFault

POLL_S, UNPLANNED_S = 0.1, 3.0
SEPARATOR = " + "
"""Between the names of several processes in one fault, and between who of several roles was replaced."""


class Fault(ABC):
    """One strike of one sort: made anew for every try.

    It is armed, strikes when an announcement is the one waited for, lasts (`endure`), is healed, and then tells who
    works in the place of whom it struck.

    Attributes:
        lasting: whether it goes on until it is healed.
        wants_records: whether some have to flow once it is healed, for it to come to its end.
        flowing: whether some have to flow while it lasts, for it to meet anything.
        after_s: how long that end may take; None: as long as any replacement.
    """

    lasting = False
    wants_records = False
    flowing = False
    after_s: float | None = None

    def prepare(self, planned: PlannedFault) -> None:  # noqa: B027 - most faults have nothing to do here
        """Take note of what was drawn for it, before it is armed: how long it is to last."""

    def aim(self, planned: PlannedFault, *, exactly: bool) -> None:  # noqa: B027 - most faults have nothing to do here
        """Take note of the step that is waited for, in that shard, or (a re-armed fault) in any."""

    def arm(self) -> None:  # noqa: B027 - most faults have nothing to do here
        """Get ready to strike without delay."""

    def disarm(self) -> None:  # noqa: B027 - most faults have nothing to do here
        """Wait for no step any more: the run ends. Safe to repeat."""

    @abstractmethod
    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        """Strike now that `event` was announced; who was struck, and when. Raises NoProcessError: it missed."""

    def endure(self) -> None:  # noqa: B027 - most faults have nothing to do here
        """Wait until it has lasted as long as it is to; returns at once where the blow is all there is."""

    def heal(self) -> None:  # noqa: B027 - most faults have nothing to do here
        """Undo it. Safe to repeat."""

    @abstractmethod
    def after(self) -> list[str]:
        """Who works instead, or again, as history names processes; nobody as long as that is not so."""

    def landed(self) -> bool:
        """Whether it met what it was to meet, as far as it knows itself; asked when it is over."""
        return True

    def evidence(self) -> dict[str, Any]:
        """What history tells of it besides: `stopped_s`, `refusal`, `requests`."""
        return {}


class Lasting(Fault):
    """A fault that has to be undone, and lasts as long as it was planned to, or until the run ends.

    Args:
        healing: undoes it whatever happens.
        seconds: for so long, where the plan does not say.
    """

    lasting = True
    _debt: Debt

    def __init__(self, healing: Healing, seconds: float = UNPLANNED_S) -> None:
        self._healing, self._seconds = healing, seconds

    def prepare(self, planned: PlannedFault) -> None:
        self._seconds = planned.planned_s or self._seconds

    def endure(self) -> None:
        self._healing.ended.wait(self._seconds)

    def heal(self) -> None:
        self._healing.pay(self._debt)

    def _last(self, longest_s: float) -> None:
        """Wait for so long, and longer as long as it has not landed, up to `longest_s` or the end of the run."""
        began = time.monotonic()
        while (lasted := time.monotonic() - began) < longest_s and not self._healing.ended.wait(POLL_S):
            if lasted >= self._seconds and self.landed():
                return


@contextmanager
def as_miss(what: str, *errors: type[Exception]) -> Iterator[None]:
    """Have errors of these sorts within mean that nobody was struck. Raises NoProcessError, with `what` before."""
    try:
        yield
    except errors as error:
        raise NoProcessError(f"{what}: {error}") from error


def kill(process: psutil.Process) -> Struck:
    """SIGKILL a process. Raises NoProcessError when it has ended."""
    who = name_process(process)
    with as_miss(who, psutil.NoSuchProcess):
        process.kill()
    return who, now_ms()


def name_process(process: psutil.Process) -> str:
    """As history names it, pid@start time. Raises NoProcessError when it has ended."""
    who = identity(process.pid)
    if who is None or not process.is_running():
        raise NoProcessError(f"process {process.pid} has ended")
    return who


def process_of(pid: int) -> psutil.Process:
    """The process of a number. Raises NoProcessError when there is none."""
    with as_miss(f"there is no process {pid}", psutil.NoSuchProcess):
        return psutil.Process(pid)


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
