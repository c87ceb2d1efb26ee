"""Faults, gated on what the pipeline announces, and counted only when they hit a running epoch."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tests.harness.adapters.drivers import Drivers, NoProcessError, Struck
from tests.harness.adapters.events import Watch
from tests.harness.history import History
from tests.harness.schedule import PlannedKill

REARMED = 2
"""How often a fault that missed is tried again before the run counts as unknown."""
REPLACED_S = 40.0
"""An executor JVM starts in some 4 s; ten times that on a busy machine."""
BETWEEN = " + "
"""Between the names of several executors in one fault."""
SIGNALS = {"sigkill": "SIGKILL"}
SAID = {"sigkill": "kill -9", "pod_delete_now": "delete without grace", "pod_delete_graceful": "delete gracefully"}


class ExecutorKills(threading.Thread):
    """Carries out the planned kills one after the other, each when its step is announced."""

    def __init__(
        self,
        planned: list[PlannedKill],
        drivers: Drivers,
        watch: Watch,
        history: History,
        say: Callable[[str], None],
        *,
        replaced_s: float = REPLACED_S,
    ) -> None:
        super().__init__(name="faults", daemon=True)
        self._planned, self._drivers, self._watch, self._history, self._say = planned, drivers, watch, history, say
        self._replaced_s = replaced_s
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
        strike = planned.strike
        self._drivers.arm(strike.kind)
        with self._watch.changed:
            after = len(self._watch.seen)
        self._history.record("phase", phase="steady")
        self.waiting.set()
        event = self._watch.next_step(lambda seen: planned.matches(seen, exactly=exactly), after, self.stop_asked)
        if event is None:
            return False
        self.waiting.clear()
        try:
            struck = (
                self._drivers.kill_executors(strike.kind) if strike.everyone
                else [self._drivers.kill_executor(event, strike.kind)]
            )  # fmt: skip
        except NoProcessError:
            return False
        if not struck:
            return False
        before = {*(who for who, _ in struck), *self._drivers.executors()}
        self._history.record("phase", t=struck[0][1], phase="inject")
        self._history.record("phase", phase="impact")
        return self._settled(planned, event["epoch"], struck, before)

    def _settled(self, planned: PlannedKill, epoch: int, struck: list[Struck], before: set[str]) -> bool:
        """Wait for the next publication and for the replacements, and write the fault down."""
        victims = [who for who, _ in struck]
        # All were struck by then.
        injected_at = max(at for _, at in struck)
        published: list[int] = []

        def recovered() -> bool:
            published[:] = [
                event["t"] for event in self._watch.seen
                if event["event"] == "epoch" and event["state"] == "published" and event["t"] >= injected_at
            ]  # fmt: skip
            # A kill that came after the last epoch was published is followed by none: it missed.
            return bool(published) or self._ended_before(epoch, injected_at)

        self._watch.wait_for("an epoch published after the kill", recovered, self._replaced_s * 2, self._drivers.alive)
        self._history.record("phase", phase="heal")
        fresh: list[str] = []

        def replaced() -> bool:
            fresh[:] = [one for one in self._drivers.executors() if one not in before]
            return len(fresh) >= len(victims) and all(self._drivers.gone(who) for who in victims)

        self._watch.wait_for("new executors", replaced, self._replaced_s, self._drivers.alive)
        # Of several that were to go at once, one alone shows nothing of what was planned.
        hit = self._was_running(epoch, injected_at) and not (planned.strike.everyone and len(victims) < 2)
        fault: dict[str, Any] = {
            "kind": planned.strike.kind, "target": planned.strike.target, "signal": SIGNALS.get(planned.strike.kind),
            "epoch": epoch, "phase": planned.phase, "injected_at": injected_at,
            "process_before": BETWEEN.join(victims), "process_after": BETWEEN.join(fresh[:len(victims)]),
            "recovered_s": round((published[0] - injected_at) / 1000, 3) if published else None, "hit": hit,
        }  # fmt: skip
        self._history.record("fault", **fault)
        self._history.record("phase", phase="recovery")
        named = " and ".join(who.partition("@")[0] for who in victims)
        outcome = f"next epoch published after {fault['recovered_s']} s" if hit else "missed, trying again"
        done = f"{SAID[planned.strike.kind]} executor {named}"
        self._say(f"{'✓' if hit else '…'} {done} in epoch {epoch} at {planned.phase}: {outcome}")
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
