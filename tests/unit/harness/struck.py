"""What faults need of a run: announcements that a test makes, debts, and processes that end with the test."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from infra.embedded.process import Child
from tests.harness.adapters.events import Watch
from tests.harness.faults.healing import Healing
from tests.harness.history import History
from tests.unit.harness.sleepers import SLEEP, Server, sleeper, state_of


class World:
    """A run without a pipeline."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.history = History(folder / "history.jsonl")
        self.watch = Watch(folder / "events.jsonl", self.history)
        self.said: list[str] = []
        self.healing = Healing(self.said.append)
        self.ended = self.healing.ended
        self.children: list[Child] = []
        self.servers: list[Server] = []
        self.at_end: list[Callable[[], object]] = []

    def child(self, code: str = SLEEP, name: str = "sleeper") -> Child:
        self.children.append(sleeper(self.folder, code, name))
        return self.children[-1]

    def announce(self, **event: Any) -> dict[str, Any]:
        return announce(self.watch, **event)

    def step(self, pid: int, epoch: int = 3, shard: int = 0) -> dict[str, Any]:
        return self.announce(event="step", epoch=epoch, shard=shard, step="committed", sink="accepted", pid=pid)

    def server(self, code: str = SLEEP) -> Server:
        self.servers.append(Server(self.folder))
        self.servers[-1].child = self.child(code, "server")
        return self.servers[-1]

    def close(self) -> None:
        self.healing.close(torn_down=True)
        for end in self.at_end:
            end()
        for one in (*self.children, *(server.child for server in self.servers if server.child)):
            one.kill()
        self.history.close()


def lend(kind: Callable[[Path], World]) -> Any:
    """A fixture `world` of a kind, which is closed after the test."""

    @pytest.fixture(name="world")
    def lent(tmp_path: Path) -> Iterator[World]:
        made = kind(tmp_path)
        yield made
        made.close()

    return lent


def announce(watch: Watch, **event: Any) -> dict[str, Any]:
    """As if the pipeline had announced it."""
    told = {"t": time.time_ns() // 1_000_000, **event}
    with watch.changed:
        watch.seen.append(told)
        watch.changed.notify_all()
    return told


def stopped(pid: int) -> bool:
    return bool(state_of(pid) == psutil.STATUS_STOPPED)
