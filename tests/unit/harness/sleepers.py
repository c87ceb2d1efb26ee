"""Real processes that do nothing, for faults to strike, and servers and drivers made of them."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from infra.embedded.process import Child, wait_for

SLEEP = "import time; print('up', flush=True); time.sleep(600)"
WITH_CHILD = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEP!r}]); {SLEEP}"
SOON_S, LOOK_S = 20.0, 0.005


def sleeper(folder: Path, code: str = SLEEP, name: str = "sleeper") -> Child:
    """A process that is up."""
    return sleepers(folder, name, code=code)[0]


def sleepers(folder: Path, *names: str, code: str = SLEEP) -> list[Child]:
    """Processes that are up."""
    logs = [folder / f"{name}.log" for name in names]
    before = [log.stat().st_size if log.exists() else 0 for log in logs]
    # Without what a site has installed they are up in half the time.
    words = [sys.executable, "-S", "-c", code]
    children = [Child(name, words, log, cwd=folder) for name, log in zip(names, logs, strict=True)]
    for child, log, size in zip(children, logs, before, strict=True):
        wait_for(f"{child.name} to be up", SOON_S, partial(_longer, log, size), child, LOOK_S)
    return children


def _longer(log: Path, size: int) -> bool:
    return log.stat().st_size > size


def state_of(pid: int) -> str:
    return str(psutil.Process(pid).status())


def soon(what: str, check: Any) -> None:
    wait_for(what, SOON_S, check, poll_s=LOOK_S)


@dataclass
class Server:
    """A server as faults see it."""

    folder: Path
    name: str = "test server"
    starts: int = 0
    child: Child | None = None
    pids: list[int] = field(default_factory=list)

    @property
    def pid(self) -> int:
        assert self.child is not None
        return self.child.pid

    def running(self) -> bool:
        return self.child is not None and self.child.running()

    def restart(self) -> None:
        self.child = sleeper(self.folder)
        self.starts += 1
        self.pids.append(self.child.pid)


@dataclass
class Home:
    """Starts a sleeper where another home starts a driver; `codes` are what they run, the last one again and again."""

    folder: Path
    codes: list[str] = field(default_factory=lambda: [WITH_CHILD])
    started: list[Child] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    """Module and arguments of the last one."""

    def start(self, name: str, module: str, arguments: list[str], env: Any = None) -> Child:
        code = self.codes[min(len(self.started), len(self.codes) - 1)]
        child = Child(name, [sys.executable, "-c", code], self.folder / f"{name}.log", cwd=self.folder)
        self.started.append(child)
        self.words = [module, *arguments]
        return child
