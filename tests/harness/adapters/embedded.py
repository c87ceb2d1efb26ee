"""A pipeline's driver and executors as processes of this machine: started, found, killed."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from infra.embedded.process import Child, identity
from infra.embedded.spark import SparkHome, executor_of, executors
from tests.harness.adapters.drivers import SIGKILL, NoProcessError, Struck

STOP_S = 30.0


@dataclass
class ProcessDrivers:
    """Drivers as processes.

    Attributes:
        home: what every driver shares.
        module: what is run.
        events: where announcements go.
        checkout: for jobs that are not in the wheel.
    """

    home: SparkHome
    module: str
    events: Path
    checkout: Path | None = None
    started: int = 0
    child: Child | None = field(default=None, repr=False)

    @property
    def driver(self) -> int | None:
        """Pid of the driver."""
        return self.child.pid if self.child else None

    @property
    def refused(self) -> bool:
        """See Drivers; here nobody counts."""
        return False

    def start(self, name: str, settings: Path, *arguments: str) -> None:
        """Start a driver; a former one must have ended."""
        self.started += 1
        env = {"EFFECTIVELY_ONCE_EVENTS": str(self.events)}
        if self.checkout is not None:
            env["PYTHONPATH"] = f"{self.home.toolchain.wheel.installed}:{self.checkout}"
        self.child = self.home.start(f"{name}-{self.started}", self.module, [str(settings), *arguments], env)

    def gather(self) -> None:
        """Have one executor with the cores of all: a JVM less starts each time."""
        home = self.home
        self.home = replace(home, executors=1, cores=home.executors * home.cores)

    def alive(self) -> str | None:
        """None while the driver runs, else its last words."""
        if self.child is None:
            return "no driver was started"
        return None if self.child.running() else self.child.post_mortem()

    def stop(self) -> int | None:
        """Stop in order (SIGTERM); the exit code."""
        assert self.child is not None
        self.child.stop(STOP_S)
        return self.child.status()

    def kill(self) -> str:
        """SIGKILL the driver with everything below it; which process that was."""
        assert self.child is not None
        who = identity(self.child.pid)
        self.child.kill()
        return who or "gone already"

    def end(self) -> None:
        """SIGKILL whatever is left. Safe to repeat."""
        if self.child is not None:
            self.child.kill()

    def executors(self) -> list[str]:
        """Executors alive, as pid@start time, oldest first."""
        found = executors(self.child.pid) if self.child and self.child.running() else []
        return [who for one in found if (who := identity(one.pid)) is not None]

    def gone(self, who: str) -> bool:
        """Whether an executor has ended."""
        return who not in self.executors()

    def arm(self, kind: str) -> None:
        """Nothing to prepare: a signal is sent at once."""
        _require_sigkill(kind)

    def kill_executor(self, event: Mapping[str, Any], kind: str = SIGKILL) -> Struck:
        """SIGKILL the executor JVM that a Python worker belongs to; raises NoProcessError."""
        _require_sigkill(kind)
        victim = executor_of(event["pid"])
        if victim is None:
            raise NoProcessError(f"no executor for worker {event['pid']}")
        return _kill(victim)

    def kill_executors(self, kind: str = SIGKILL) -> list[Struck]:
        """SIGKILL every executor JVM; who they were, and when (ms). One that has just ended is left out."""
        _require_sigkill(kind)
        assert self.child is not None
        killed = []
        for victim in executors(self.child.pid):
            with suppress(NoProcessError):
                killed.append(_kill(victim))
        return killed

    def open_gate(self, name: str) -> None:
        """Make the file that a control waits for, beside the announcements."""
        self.events.with_name(f"{name}.go").touch()


def _require_sigkill(kind: str) -> None:
    if kind != SIGKILL:
        raise ValueError(f"fault {kind!r} needs pods; processes of this machine know {SIGKILL}")


def _kill(victim: psutil.Process) -> Struck:
    try:
        who = identity(victim.pid)
        if who is None:
            raise NoProcessError(f"executor {victim.pid} has ended")
        victim.send_signal(signal.SIGKILL)
    except psutil.NoSuchProcess as gone:
        raise NoProcessError(str(gone)) from gone
    return who, time.time_ns() // 1_000_000
