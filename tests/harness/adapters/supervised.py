"""Drivers as processes, and who starts the next one when one has ended: what the operator does on a cluster."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from infra.embedded.process import Child, descendants, identity, kill_all
from infra.embedded.spark import executors
from infra.toolchain.command import tail
from tests.harness.adapters.drivers import NoProcessError, Struck
from tests.harness.adapters.embedded import ProcessDrivers
from tests.harness.history import History
from tests.harness.refusals import Refusals

POLL_S = 0.05
GIVE_UP, WITHIN_S = 5, 120.0
"""A driver that ended by itself so often in that time is not started again: it does not come up."""


@dataclass
class SupervisedDrivers(ProcessDrivers):
    """Drivers, one after the other, of which a dead one is followed by the next until the run ends.

    Attributes:
        history: told when one has ended.
        say: told when one has ended that nobody struck.
        under: what is being done to every driver, while it is: one that ends then does not count as not coming up.
        last_words: of drivers that ended by themselves, by pid.
        way_out: is taken, once, where drivers were refused; says what was done. None: they are given up.
    """

    history: History | None = None
    say: Callable[[str], None] = lambda _: None
    under: str | None = None
    last_words: dict[int, str] = field(default_factory=dict)
    way_out: Callable[[], str] | None = None
    _what: tuple[str, Path, tuple[str, ...]] | None = None
    _wanted: bool = False
    _given_up: str | None = None
    _struck: set[int] = field(default_factory=set)
    _beside: list[Child] = field(default_factory=list)
    _orphans: list[psutil.Process] = field(default_factory=list)
    _ends: list[float] = field(default_factory=list)
    _refusals: Refusals = field(default_factory=Refusals)
    _away_until_s: float | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    @property
    def refused(self) -> bool:
        """See Drivers."""
        return self._refusals.enough

    def start(self, name: str, settings: Path, *arguments: str) -> None:
        """Start a driver, and from now on the next one whenever one has ended."""
        with self._lock:
            self._what, self._wanted, self._given_up = (name, settings, arguments), True, None
            super().start(name, settings, *arguments)
            if self._thread is None:
                self._thread = threading.Thread(target=self._supervise, name="supervisor", daemon=True)
                self._thread.start()

    def alive(self) -> str | None:
        """None while a driver runs or the next one is about to, else the last words."""
        with self._lock:
            if self._wanted and self._given_up is None:
                return None
            return self._given_up or super().alive()

    def stop(self) -> int | None:
        """Stop the driver in order, and start no other."""
        with self._lock:
            self._wanted = False
        return super().stop()

    def kill(self) -> str:
        """SIGKILL the driver with everything below it, and start no other."""
        with self._lock:
            self._wanted = False
        return super().kill()

    def end(self) -> None:
        """SIGKILL whatever is left, what stands still included, and start no other."""
        self._over.set()
        with self._lock:
            self._wanted = False
            for one in self._beside:
                one.kill()
            kill_all([one for one in self._orphans if one.is_running()])
            super().end()

    def kill_driver(self) -> Struck:
        """SIGKILL the driver's process and its JVM. Its executors are left to find out for themselves.

        Raises:
            NoProcessError: there is none.
        """
        with self._lock:
            child = self.child
            who = identity(child.pid) if child is not None and child.running() else None
            if child is None or who is None:
                raise NoProcessError("no driver runs")
            mine = executors(child.pid)
            kept = {one.pid for executor in mine for one in (executor, *descendants(executor.pid))}
            family = descendants(child.pid)
            self._struck.add(child.pid)
            for one in [psutil.Process(child.pid), *(one for one in family if one.pid not in kept)]:
                with suppress(psutil.NoSuchProcess):
                    one.kill()
            at = time.time_ns() // 1_000_000
            self._orphans += [one for one in family if one.pid in kept]
            self._record("killed", child.pid, process=who)
            return who, at

    def keep_away(self, until_s: float | None) -> None:
        """Start no driver before a moment of the monotonic clock, whatever ends meanwhile; None: from now on again."""
        with self._lock:
            self._away_until_s = until_s

    def start_beside(self) -> int:
        """Start the next driver though the former has not ended; which one that is. `end` ends the former too."""
        with self._lock:
            if self.child is None or self._what is None:
                raise NoProcessError("no driver was started")
            self._struck.add(self.child.pid)
            self._beside.append(self.child)
            name, settings, arguments = self._what
            super().start(name, settings, *arguments)
            return self.child.pid

    def _supervise(self) -> None:
        while not self._over.wait(POLL_S):
            with self._lock:
                for one in [one for one in self._beside if not one.running()]:
                    self._beside.remove(one)
                    self._record("ended", one.pid, code=one.status(), says=_last_line(one))
                if self._away or not self._wanted or self._given_up is not None:
                    continue
                if self.child is not None and not self.child.running():
                    self._next(self.child)

    @property
    def _away(self) -> bool:
        return self._away_until_s is not None and time.monotonic() < self._away_until_s

    def _next(self, ended: Child) -> None:
        if ended.pid not in self._struck:
            self._by_itself(ended)
            if self._given_up is not None:
                return
        assert self._what is not None
        name, settings, arguments = self._what
        super().start(name, settings, *arguments)

    def _by_itself(self, ended: Child) -> None:
        """Tell of a driver that ended though nobody struck it; give up when that is often, or a sink refuses."""
        words, under = _last_line(ended), self.under
        self.last_words[ended.pid] = words
        self._record("ended", ended.pid, code=ended.status(), says=words)
        how = f"under {under}" if under else "that was not struck"
        self.say(f"… a driver ended {how} (exit code {ended.status()}): {words}")
        self._given_up = self._refusals.give_up(words)
        if self._given_up is not None and self.way_out is not None:
            self._given_up = self._out(ended, self._given_up)
        if under is not None or self._given_up is not None:
            return
        now = time.monotonic()
        self._ends = [*(one for one in self._ends if now - one < WITHIN_S), now]
        if len(self._ends) >= GIVE_UP:
            self._given_up = f"{GIVE_UP} drivers ended within {WITHIN_S:.0f} s; {ended.post_mortem()}"

    def _out(self, ended: Child, why: str) -> str | None:
        """Take the way out; None where the next driver may come, else why there is none."""
        assert self.way_out is not None
        take, self.way_out = self.way_out, None
        self.say(f"… {why}: the epoch is repaired")
        try:
            says = take()
        except Exception as error:
            return f"{why}; there was no way out: {error}"
        self._refusals = Refusals()
        self.say(f"… repaired: {says}")
        self._record("repaired", ended.pid, says=says)
        return None

    def _record(self, state: str, pid: int, **fields: Any) -> None:
        if self.history is not None:
            with suppress(ValueError):
                self.history.record("driver", state=state, pid=pid, **fields)


def _last_line(ended: Child) -> str:
    lines = [line for line in tail(ended.log, 20).splitlines() if line.strip()]
    return lines[-1].strip()[:240] if lines else ""
