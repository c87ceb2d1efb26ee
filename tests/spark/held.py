"""Holds a process of a pipeline at a named point of the protocol (effectively_once.points), from the test's side."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from effectively_once.points import HELD, HOLD, POINTS, RELEASE, VARIABLE
from infra.embedded.process import Child, wait_for

HELD_S, GONE_S, SEND_AGAIN_S = 180.0, 60.0, 20.0


@dataclass(frozen=True)
class Held:
    """A folder that drivers are told of, and their executors by inheritance."""

    folder: Path

    @property
    def env(self) -> Mapping[str, str]:
        """What a driver's environment needs."""
        return {VARIABLE: str(self.folder)}

    def ask(self, point: str, **where: Any) -> None:
        """Have the next process held that comes by; texts are regular expressions."""
        assert point in POINTS, point
        for name in (HELD, RELEASE):
            (self.folder / name).unlink(missing_ok=True)
        draft = self.folder / "draft"
        draft.write_text(json.dumps({"point": point, **where}))
        draft.rename(self.folder / HOLD)

    def wait(self, driver: Child, send: Callable[[], object] = lambda: None) -> psutil.Process:
        """Wait until a process is held; which one. Meanwhile records come: not every epoch closes a window."""
        last = time.monotonic()

        def is_held() -> bool:
            nonlocal last
            if time.monotonic() - last > SEND_AGAIN_S:
                send()
                last = time.monotonic()
            return (self.folder / HELD).exists()

        wait_for("a process at the point", HELD_S, is_held, driver)
        return psutil.Process(json.loads((self.folder / HELD).read_text())["pid"])

    def release(self) -> None:
        """Let it go on."""
        (self.folder / RELEASE).touch()


def kill(process: psutil.Process) -> None:
    """SIGKILL a process, and see that it is gone."""
    process.kill()
    process.wait(GONE_S)


def executor_of(worker: psutil.Process) -> psutil.Process:
    """The executor's JVM above a Python worker."""
    return next(one for one in worker.parents() if one.name() == "java")
