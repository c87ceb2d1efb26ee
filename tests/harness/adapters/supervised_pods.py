"""Drivers as pods of which the Spark operator starts the next one whenever one has ended: struck, and followed."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.harness.adapters.armed import KILL_ALL, KILL_ANY, Word
from tests.harness.adapters.cluster import ClusterTimeoutError, failure_of, state_of
from tests.harness.adapters.drivers import SIGKILL, NoProcessError, Struck
from tests.harness.adapters.pod_log import DRIVER, Pod, driver_name
from tests.harness.adapters.pods import GRACE_S, READY_S, PodDrivers
from tests.harness.history import History
from tests.harness.refusals import Refusals

GIVE_UP, WITHIN_S = 5, 300.0
"""A driver that ended by itself so often in that time does not come up; a start takes some 20 s here."""
NEXT_S = 180.0
"""The operator starts the next driver within moments; it may be away itself for a while, or the API server."""
AGAIN_S = 0.5


@dataclass
class SupervisedPods(PodDrivers):
    """Drivers as pods, one after the other; `driver` is the newest, and the end of one is not the end of the run.

    Attributes:
        history: told when one has ended.
        under: what is being done to every driver, while it is: one that ends then does not count as not coming up.
    """

    history: History | None = None
    under: str | None = None
    _wanted: bool = False
    _suspended: bool = False
    _given_up: str | None = None
    _struck: set[str] = field(default_factory=set)
    _ended: dict[str, float] = field(default_factory=dict)
    _by_themselves: list[float] = field(default_factory=list)
    _refusals: Refusals = field(default_factory=Refusals)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def refused(self) -> bool:
        """See Drivers."""
        return self._refusals.enough

    def start(self, name: str, settings: Path, *arguments: str) -> None:
        """Apply the SparkApplication; from now on a driver that ends is followed by the next."""
        super().start(name, settings, *arguments)
        with self._lock:
            self._wanted, self._given_up = True, None
            self._by_themselves.clear()

    def alive(self) -> str | None:
        """None while a driver runs or the next one is about to, else why there is none."""
        with self._lock:
            if not self._wanted or self._driver() is None:
                return super().alive()
            if self._given_up is None:
                self._note_ends()
            return self._given_up

    def stop(self) -> int | None:
        """Stop the driver in order, and have the operator start no other."""
        self._unwanted()
        return super().stop()

    def kill(self) -> str:
        """SIGKILL the driver, and have the operator start no other."""
        self._unwanted()
        return super().kill()

    def end(self) -> None:
        """Ask for the end of everything, and do not wait for it. Safe to repeat."""
        self._unwanted()
        super().end()

    def arm_driver(self, kind: str, word: Word = KILL_ALL) -> None:
        """Wait for a driver that runs, and unless its pod is to be deleted open a session in it.

        Raises:
            ClusterTimeoutError: none comes, or it cannot be entered.
        """
        self._disarm()
        deadline = time.monotonic() + READY_S
        while True:
            self.cluster.wait_for(
                f"a driver of {self.name}",
                lambda: (pod := self._driver()) is not None and pod.runs,
                max(0.0, deadline - time.monotonic()),
                lambda: [self.driver, self.alive(), self.log.trouble],
            )
            if kind in GRACE_S:
                return
            try:
                self._ready(self.running(), word)
            except NoProcessError as error:
                # It runs, and has no JVM yet; or it has just ended.
                if time.monotonic() > deadline:
                    raise ClusterTimeoutError(f"the driver of {self.name} cannot be entered: {error}") from error
                time.sleep(AGAIN_S)
            else:
                return

    def running(self) -> Pod:
        """The pod of the driver that runs. Raises NoProcessError when none does."""
        pod = self._driver()
        if pod is None or not pod.runs:
            raise NoProcessError(f"no driver of {self.name} runs")
        return pod

    def kill_driver(self, kind: str = SIGKILL) -> Struck:
        """SIGKILL the driver, or delete its pod. Its executors are left to find out for themselves.

        Raises:
            NoProcessError: there is none, or it did not fall.
        """
        pod = self.running()
        self.excuse(pod)
        try:
            if kind == SIGKILL:
                armed = self._ready(pod, KILL_ANY)
                armed.word()
                at, said = armed.struck()
                if not said and not self._fell(pod):
                    raise NoProcessError(f"{pod.who}: the shell did not say that it kills, and it did not fall")
            else:
                at = self.cluster.delete_pod(pod.name, pod.uid, GRACE_S[kind])
        finally:
            self._disarm()
        self._tell("killed", pod, process=pod.who)
        return pod.who, at

    def stop_driver(self, pod: Pod, word: Word) -> Struck:
        """Have the armed session in that driver stop it; raises NoProcessError when it does not stand still."""
        self.excuse(pod)
        try:
            armed = self._ready(pod, word)
            armed.word()
            at, said = armed.struck()
        finally:
            self._disarm()
        if not said:
            raise NoProcessError(f"{pod.who}: the shell did not say that it stands still")
        return pod.who, at

    def suspend(self) -> None:
        """Have the operator start no driver; it ends the one that runs in order. Nobody misses one until `resume`."""
        with self._lock:
            self._suspended = True
        self.cluster.patch_application(self.name, {"spec": {"suspend": True}})

    def resume(self) -> None:
        """Have the operator start drivers again. Safe to repeat."""
        self.cluster.patch_application(self.name, {"spec": {"suspend": False}})
        with self._lock:
            self._suspended = False
            # The time that the next one may take begins now.
            if (newest := self._driver()) is not None and newest.uid in self._ended:
                self._ended[newest.uid] = time.monotonic()

    def excuse(self, pod: Pod) -> None:
        """Note that the end of this driver is no news."""
        with self._lock:
            self._struck.add(pod.uid)

    def _driver(self) -> Pod | None:
        """The newest driver of this start."""
        mine = [pod for pod in self.log.pods(DRIVER) if pod.uid not in self._earlier]
        return mine[-1] if mine else None

    def _unwanted(self) -> None:
        with self._lock:
            self._wanted = False

    def _note_ends(self) -> None:
        """Tell of drivers that ended though nobody struck them; give up when none stays or follows."""
        now = time.monotonic()
        for pod in self.log.pods(DRIVER):
            if pod.uid in self._earlier or pod.uid in self._ended or not pod.ended:
                continue
            self._ended[pod.uid] = now
            if pod.uid in self._struck:
                continue
            says = _last_line(self.log.last_words(pod.uid))
            self._tell("ended", pod, code=pod.exit_code, says=says)
            self.say(f"… driver {driver_name(pod)} ended that was not struck (exit code {pod.exit_code}): {says}")
            self._given_up = self._refusals.give_up(says)
            if self._given_up is not None:
                return
            if self.under is not None:
                continue
            self._by_themselves = [*(one for one in self._by_themselves if now - one < WITHIN_S), now]
            if len(self._by_themselves) >= GIVE_UP:
                self._given_up = f"{GIVE_UP} drivers ended within {WITHIN_S:.0f} s; {self._last_words(pod)}"
                return
        newest = self._driver()
        if newest is not None and newest.ended and not self._suspended and now - self._ended[newest.uid] > NEXT_S:
            self._given_up = f"no driver has followed {newest.who} within {NEXT_S:.0f} s; {self._state()}"

    def _state(self) -> str:
        """What the cluster says of the SparkApplication."""
        try:
            application = self.cluster.application(self.name)
        except Exception as error:
            return f"SparkApplication {self.name} cannot be read: {error}"
        said = failure_of(application) or "no reason is given"
        return f"SparkApplication {self.name} is {state_of(application) or 'without a state'}: {said}"

    def _tell(self, state: str, pod: Pod, **fields: Any) -> None:
        if self.history is not None:
            # It is closed when a driver ends after the run.
            with suppress(ValueError):
                self.history.record("driver", state=state, pid=driver_name(pod), **fields)


def _last_line(words: str) -> str:
    lines = [line for line in words.splitlines() if line.strip()]
    return lines[-1].strip()[:240] if lines else ""
