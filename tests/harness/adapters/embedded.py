"""A pipeline's driver and executors as processes of this machine: started, found, killed."""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from infra.embedded.process import Child, identity
from infra.embedded.spark import SparkHome, executor_of, executors


class NoProcessError(Exception):
    """The process to be killed is gone already: the fault missed."""


@dataclass
class Drivers:
    """The drivers of one run, one alive at a time. `checkout` is for jobs that are not in the wheel."""

    home: SparkHome
    module: str
    events: Path
    checkout: Path | None = None
    started: int = 0
    child: Child | None = field(default=None, repr=False)

    def start(self, name: str, *arguments: str) -> Child:
        """Start a driver; a former one must have ended."""
        self.started += 1
        env = {"EFFECTIVELY_ONCE_EVENTS": str(self.events)}
        if self.checkout is not None:
            env["PYTHONPATH"] = f"{self.home.toolchain.wheel.installed}:{self.checkout}"
        self.child = self.home.start(f"{name}-{self.started}", self.module, list(arguments), env)
        return self.child

    def alive(self) -> str | None:
        """None while the driver runs, else its last words."""
        if self.child is None:
            return "no driver was started"
        return None if self.child.running() else self.child.post_mortem()

    def stop(self, grace_s: float = 30.0) -> int | None:
        """Stop in order (SIGTERM); the exit code."""
        assert self.child is not None
        self.child.stop(grace_s)
        return self.child.status()

    def kill(self) -> str:
        """SIGKILL the driver with everything below it; which process that was."""
        assert self.child is not None
        who = identity(self.child.pid)
        self.child.kill()
        return who or "gone already"

    def executors(self) -> list[str]:
        """Executors alive, as pid@start time, oldest first."""
        found = executors(self.child.pid) if self.child and self.child.running() else []
        return [who for one in found if (who := identity(one.pid)) is not None]

    def kill_executor(self, worker_pid: int) -> tuple[str, int]:
        """SIGKILL the executor JVM that a Python worker belongs to; who it was, and when (ms).

        Raises:
            NoProcessError: there is none any more.
        """
        victim = executor_of(worker_pid)
        if victim is None:
            raise NoProcessError(f"no executor for worker {worker_pid}")
        return _killed(victim)

    def kill_executors(self) -> list[tuple[str, int]]:
        """SIGKILL every executor JVM; who they were, and when (ms). One that has just ended is left out."""
        assert self.child is not None
        killed = []
        for victim in executors(self.child.pid):
            with suppress(NoProcessError):
                killed.append(_killed(victim))
        return killed


def _killed(victim: psutil.Process) -> tuple[str, int]:
    try:
        who = identity(victim.pid)
        if who is None:
            raise NoProcessError(f"executor {victim.pid} has ended")
        victim.send_signal(signal.SIGKILL)
    except psutil.NoSuchProcess as gone:
        raise NoProcessError(str(gone)) from gone
    return who, time.time_ns() // 1_000_000
