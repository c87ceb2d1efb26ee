"""Faults, gated on what the pipeline announces, and counted only when they hit a running epoch."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tests.harness.adapters.embedded import Drivers, NoProcessError
from tests.harness.adapters.events import Watch
from tests.harness.history import History
from tests.harness.schedule import PlannedKill

REARMED = 2
"""How often a fault that missed is tried again before the run counts as unknown."""
REPLACED_S = 40.0
"""An executor JVM starts in some 4 s; ten times that on a busy machine."""


class ExecutorKills(threading.Thread):
    """Carries out the planned kills one after the other, each when its step is announced."""

    def __init__(
        self,
        planned: list[PlannedKill],
        drivers: Drivers,
        watch: Watch,
        history: History,
        say: Callable[[str], None],
    ) -> None:
        super().__init__(name="faults", daemon=True)
        self._planned, self._drivers, self._watch, self._history, self._say = planned, drivers, watch, history, say
        self.stop_asked = threading.Event()
        self.waiting = threading.Event()
        """Set while the next kill waits for its step, and after the last one: who sends little data waits for it."""
        self.error: BaseException | None = None

    def run(self) -> None:
        """Kill; what goes wrong here is kept for the run to raise, and judged as missing faults."""
        try:
            for planned in self._planned:
                if not any(self._once(planned, exactly=attempt == 0) for attempt in range(1 + REARMED)):
                    self._say(f"✗ kill at {planned.phase} never hit a running epoch")
        except BaseException as error:
            self.error = error
        finally:
            self.waiting.set()

    def _once(self, planned: PlannedKill, *, exactly: bool) -> bool:
        """One try: wait for the step, kill, see what came of it."""
        with self._watch.changed:
            after = len(self._watch.seen)
        self._history.record("phase", phase="steady")
        self.waiting.set()
        event = self._watch.next_step(lambda seen: planned.matches(seen, exactly=exactly), after, self.stop_asked)
        if event is None:
            return False
        self.waiting.clear()
        try:
            victim, injected_at = self._drivers.kill_executor(event["pid"])
        except NoProcessError:
            return False
        before = {victim, *self._drivers.executors()}
        self._history.record("phase", t=injected_at, phase="inject")
        self._history.record("phase", phase="impact")
        return self._settled(planned, event["epoch"], victim, injected_at, before)

    def _settled(self, planned: PlannedKill, epoch: int, victim: str, injected_at: int, before: set[str]) -> bool:
        """Wait for the next publication and for the replacement, and write the fault down."""
        published: list[int] = []

        def recovered() -> bool:
            published[:] = [
                event["t"] for event in self._watch.seen
                if event["event"] == "epoch" and event["state"] == "published" and event["t"] >= injected_at
            ]  # fmt: skip
            # A kill that came after the last epoch was published is followed by none: it missed.
            return bool(published) or self._ended_before(epoch, injected_at)

        self._watch.wait_for("an epoch published after the kill", recovered, REPLACED_S * 2, self._drivers.alive)
        self._history.record("phase", phase="heal")
        fresh: list[str] = []

        def replaced() -> bool:
            fresh[:] = [one for one in self._drivers.executors() if one not in before]
            return bool(fresh)

        self._watch.wait_for("a new executor", replaced, REPLACED_S, self._drivers.alive)
        hit = self._was_running(epoch, injected_at)
        fault: dict[str, Any] = {
            "kind": "sigkill", "target": "executor", "signal": "SIGKILL", "epoch": epoch, "phase": planned.phase,
            "injected_at": injected_at, "process_before": victim, "process_after": fresh[0],
            "recovered_s": round((published[0] - injected_at) / 1000, 3) if published else None, "hit": hit,
        }  # fmt: skip
        self._history.record("fault", **fault)
        self._history.record("phase", phase="recovery")
        pid, _, _ = victim.partition("@")
        outcome = f"next epoch published after {fault['recovered_s']} s" if hit else "missed, trying again"
        self._say(f"{'✓' if hit else '…'} kill -9 executor {pid} in epoch {epoch} at {planned.phase}: {outcome}")
        return hit

    def _ended_before(self, epoch: int, at: int) -> bool:
        """Whether the epoch had been published when the kill came."""
        return any(
            event["event"] == "epoch" and event["epoch"] == epoch and event["state"] == "published" and event["t"] < at
            for event in self._watch.seen
        )

    def _was_running(self, epoch: int, at: int) -> bool:
        """Whether the kill came between the epoch's declaration and its publication."""
        with self._watch.changed:
            times: dict[str, int] = {
                event["state"]: event["t"] for event in self._watch.seen
                if event["event"] == "epoch" and event["epoch"] == epoch
            }  # fmt: skip
        return times.get("declared", at + 1) <= at <= times.get("published", -1)
