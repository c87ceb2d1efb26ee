"""What a run needs of a pipeline's driver and executors, wherever they are: processes of this machine, or pods."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

SIGKILL, DELETE_NOW, DELETE_GRACEFULLY = "sigkill", "pod_delete_now", "pod_delete_graceful"

Struck = tuple[str, int]
"""Who was struck, as history names it (`pid@start time`, `pod@uid`), and when on this machine's clock (ms)."""


class NoProcessError(Exception):
    """The process to be killed is gone already: the fault missed."""


class Drivers(Protocol):
    """The drivers of one pipeline of a run, one alive at a time."""

    @property
    def driver(self) -> int | str | None:
        """The driver that was started last, as its events in the history name it; None before there is one."""

    @property
    def refused(self) -> bool:
        """Whether so many were refused by a sink that no next one would fare better."""

    def start(self, name: str, settings: Path, *arguments: str) -> None:
        """Start a driver on a settings file; a former one must have ended. It need not have begun on return."""

    def gather(self) -> None:
        """Let later drivers do with as few executors as there can be: none is struck any more."""

    def alive(self) -> str | None:
        """None while the driver runs or is about to, else its last words."""

    def stop(self) -> int | None:
        """Stop in order (SIGTERM); the exit code, None when it is not known."""

    def kill(self) -> str:
        """SIGKILL the driver; which one that was."""

    def end(self) -> None:
        """End whatever is left, at once. Safe to repeat."""

    def executors(self) -> list[str]:
        """Executors alive, oldest first."""

    def gone(self, who: str) -> bool:
        """Whether an executor has ended."""

    def arm(self, kind: str) -> None:
        """Get ready to strike without delay; every executor is there on return."""

    def kill_executor(self, event: Mapping[str, Any], kind: str) -> Struck:
        """Strike the executor that announced `event`; raises NoProcessError when there is none any more."""

    def kill_executors(self, kind: str) -> list[Struck]:
        """Strike every executor. One that has just ended is left out."""

    def open_gate(self, name: str) -> None:
        """Let a control's query begin: makes the file `<name>.go` that its driver waits for."""
