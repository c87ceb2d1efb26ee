"""Carries out a plan of faults, each gated on what the pipeline announces, and counted only when it hit an epoch."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import Enum, auto
from typing import Any

from tests.harness.adapters.drivers import Drivers, NoProcessError, Struck
from tests.harness.adapters.events import Watch
from tests.harness.aftermath import Aftermath
from tests.harness.cut_sorts import CUT
from tests.harness.faults.arsenal import Arsenal
from tests.harness.faults.fault import POLL_S, SEPARATOR, Fault, now_ms
from tests.harness.history import History
from tests.harness.mixture import with_work_left
from tests.harness.results import Effect
from tests.harness.results import Fault as Evidence
from tests.harness.schedule import EVERY_EXECUTOR, PlannedFault
from tests.harness.signals import SIGNALS
from tests.harness.stall_sorts import UNFELT

REARMED = 4
"""How often a fault that missed is tried again before the run counts as unknown. In pods a task may announce its step
while its pod is still being asked to hold it, and such a try is lost."""
REPLACED_S = 40.0
"""An executor JVM starts in some 4 s; ten times that on a busy machine."""
PORTIONS_UNDONE = 2
"""Of records that may flow while a fault that wants them is undone."""
ENDING_S = 90.0
"""What is under way when a run breaks off is given up within moments; a server that is being started is waited for."""
SAID = {
    "sigkill": "kill -9",
    "sigstop": "stop",
    "zombie": "make a zombie of",
    "pod_delete_now": "delete without grace",
    "pod_delete_graceful": "delete gracefully",
    "node_restart": "restart",
    "out_of_memory": "take all memory of",
    "second_driver": "start another beside the",
    "restart": "restart",
    "forgotten_markers": "kill in a commit, and have it forget the markers, the",
    "taken_id": "take the id of the",
    "sigstop_beyond_time_out": "stop beyond the time-out of transactions the",
    "error_answers": "errors from",
    "late_answers": "late answers from",
    "lost_answers": "lost answers from",
    "no_room": "no room in",
    "leader_move": "move leadership from",
    "clock_step": "step the clock of the",
    "stall": "stall",
    "task_kill": "have Spark kill",
    "stage_cancel": "have Spark cancel",
    "cut": "cut the network between",
    "slow_disk": "slow the disk of the",
    "away": "kill, and start none for a while, the",
    "held_back": "keep back records of the",
    "leader_away": "stop, as it leads a partition of the input, the",
    "rollout": "restart one by one the copies of the",
    "node_drain": "drain a",
    "disk_lost": "lose a disk of the",
}


class Came(Enum):
    """What came of one try."""

    HIT = auto()
    MISSED = auto()
    WITHOUT_EFFECT = auto()


class Campaign(threading.Thread):
    """Carries out the planned faults one after the other, each when its step is announced.

    Args:
        planned: in this order.
        arsenal: makes the faults.
        drivers: whether the pipeline lives.
        watch: what it announces.
        history: where faults are written down.
        say: told what came of each.
        replaced_s: how long a replacement may take.
        readings: of servers of several copies, as they come.
    """

    def __init__(
        self,
        planned: Sequence[PlannedFault],
        arsenal: Arsenal,
        drivers: Drivers,
        watch: Watch,
        history: History,
        *,
        say: Callable[[str], None],
        replaced_s: float = REPLACED_S,
        readings: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        super().__init__(name="faults", daemon=True)
        self._planned, self._arsenal, self._drivers = planned, arsenal, drivers
        self._watch, self._history, self._say, self._replaced_s = watch, history, say, replaced_s
        self._readings = readings
        self._broken_off = threading.Event()
        self.stop_asked = threading.Event()
        self.waiting = threading.Event()
        """Set while the next fault waits for its step, and after the last one: who sends little data waits for it."""
        self.drained = threading.Event()
        """Set once everything was sent and published: no epoch follows that would show how a fault was survived."""
        self._portions_undone = 0
        self.error: BaseException | None = None

    @property
    def says(self) -> str:
        """What is struck, for the console."""
        return f"{len(self._planned)} faults" if self._planned else "no fault"

    def run(self) -> None:
        """Strike; what goes wrong here is kept for the run to raise, and judged as missing faults."""
        try:
            for planned in self._planned:
                hit = self._try(planned)
                if self._broken_off.is_set():
                    return
                if not hit:
                    strike = planned.strike
                    done = f"{SAID[strike.kind]} {strike.target}"
                    self._say(f"✗ {done} at {planned.phase} never hit a running epoch with effect")
        except BaseException as error:
            self.error = error
        finally:
            self.waiting.set()

    def more(self) -> bool:
        """Whether one more portion of records may be sent: a fault waits for its step, or cannot end without it."""
        if self.waiting.is_set():
            return True
        if self._portions_undone > 0:
            self._portions_undone -= 1
            return True
        return False

    def end(self) -> None:
        """Give up what is under way, undo it and say so. Safe to repeat."""
        self.stop_asked.set()
        self._broken_off.set()
        if self.is_alive():
            self._arsenal.close()
            self.join(ENDING_S)
        # Again: a fault may have struck between the two.
        self._arsenal.close()

    def _try(self, planned: PlannedFault) -> bool:
        """Every try that it takes and that there is time for; whether one of them hit."""
        for attempt in range(1 + REARMED):
            # One whose delay outlasted the epoch comes sooner in the next.
            sooner = replace(planned, after_s=planned.after_s / 2**attempt)
            came = self._once(sooner, exactly=attempt == 0)
            if came is Came.HIT:
                return True
            if self.stop_asked.is_set():
                return False
            if came is Came.WITHOUT_EFFECT or planned.strike in UNFELT or planned.strike.kind == CUT:
                # In pods it takes a second to cut or to stall a node, and the steps late in an epoch are over by then.
                planned = with_work_left(planned)
        return False

    def _once(self, planned: PlannedFault, *, exactly: bool) -> Came:
        """One try: wait for the step, strike, see what came of it."""
        fault = self._arsenal.fault(planned.strike)
        fault.prepare(planned)
        fault.arm()
        with self._watch.changed:
            after = len(self._watch.seen)
        # From now on nothing that is announced goes unseen: a fault may have it held.
        fault.aim(planned, exactly=exactly)
        self._history.record("phase", phase="steady")
        self.waiting.set()
        event = self._watch.next_step(lambda seen: planned.matches(seen, exactly=exactly), after, self.stop_asked)
        if event is None:
            fault.disarm()
            return Came.MISSED
        self.waiting.clear()
        if not self._delay(planned.after_s, event):
            fault.disarm()
            return self._note_miss(planned, event["epoch"], f"it was over {planned.after_s:g} s later")
        try:
            struck = fault.strike(event)
        except NoProcessError as error:
            return self._note_miss(planned, event["epoch"], str(error))
        if not struck:
            return self._note_miss(planned, event["epoch"], "there was nobody to strike")
        self._history.record("phase", t=struck[0][1], phase="inject")
        self._history.record("phase", phase="impact")
        return self._settle(fault, planned, event, struck)

    def _delay(self, seconds: float, event: Mapping[str, Any]) -> bool:
        """Let so much time pass after an announcement; whether the epoch still runs then."""
        if not seconds:
            return True
        until = time.monotonic() + seconds
        with self._watch.changed:
            while running := not self._broken_off.is_set() and not self._published_since(event):
                left_s = until - time.monotonic()
                if left_s <= 0:
                    break
                # Who breaks a run off announces nothing.
                self._watch.changed.wait(min(left_s, POLL_S))
        return running

    def _published_since(self, event: Mapping[str, Any]) -> bool:
        return bool(self._watch.find_announced("epoch", event["t"], epoch=event["epoch"], state="published"))

    def _settle(self, fault: Fault, planned: PlannedFault, event: Mapping[str, Any], struck: list[Struck]) -> Came:
        """Let it last, undo it, wait for an epoch after it and for the replacements, and write the fault down."""
        epoch: int = event["epoch"]
        # All were struck by then. Of several the first may be gone long before.
        first_at, injected_at = min(at for _, at in struck), max(at for _, at in struck)
        healed_at: int | None = None
        if fault.lasting:
            try:
                self._portions_undone = PORTIONS_UNDONE if fault.flowing else 0
                fault.endure()
            finally:
                self._history.record("phase", phase="heal")
                self._portions_undone = PORTIONS_UNDONE if fault.wants_records else 0
                fault.heal()
            healed_at = now_ms()
        victims = [who for who, _ in struck]
        told: dict[str, Any] = {
            "kind": planned.strike.kind,
            "target": planned.strike.target,
            "signal": SIGNALS.get(planned.strike.kind),
            "epoch": epoch,
            "phase": planned.phase,
            "announced_at": event["t"],
            **({"shard": event["shard"]} if "shard" in event else {}),
            **({} if first_at == injected_at else {"first_at": first_at}),
            "injected_at": injected_at,
            "process_before": SEPARATOR.join(victims),
            **({} if healed_at is None else {"healed_at": healed_at}),
        }
        self._await_recovery(told)
        if not fault.lasting:
            self._history.record("phase", phase="heal")
        after: list[str] = []

        def replaced() -> bool:
            after[:] = fault.after()
            return bool(after)

        if self._aftermath(told).recovered_at is not None:
            patience_s = fault.after_s or self._replaced_s
            self._watch.wait_for(f"what replaces {struck[0][0]}", replaced, patience_s, self._alive)
        self._portions_undone = 0
        told |= {"process_after": SEPARATOR.join(after), **fault.evidence()}
        told |= {"after_s": planned.after_s} if planned.after_s else {}
        # Of several that were to go at once, one alone shows nothing of what was planned.
        alone = planned.strike.target == EVERY_EXECUTOR and len(victims) < 2
        aftermath = self._aftermath(told)
        at = aftermath.recovered_at
        met = self._was_running(epoch, injected_at) and not alone and fault.landed() and at is not None
        came = Came.MISSED
        if met:
            came = Came.WITHOUT_EFFECT if aftermath.effect is Effect.NONE else Came.HIT
        told |= {"recovered_s": None if at is None else round((at - injected_at) / 1000, 3), "hit": came is Came.HIT}
        self._history.record("fault", **told)
        self._history.record("phase", phase="recovery")
        self._report(planned, victims, told, came, aftermath.effect)
        return came

    def _await_recovery(self, told: Mapping[str, Any]) -> None:
        """Wait for an epoch that was declared or done again after a fault, or until it is known that none comes."""
        granted = 0

        def recovered() -> bool:
            nonlocal granted
            aftermath = self._aftermath(told)
            if aftermath.recovered_at is not None or self.drained.is_set():
                return True
            if aftermath.idle and not self._portions_undone and granted < PORTIONS_UNDONE:
                # All that was sent is published, and who sends waits for this fault.
                self._portions_undone, granted = 1, granted + 1
            return False

        self._watch.wait_for("an epoch declared after the fault", recovered, self._replaced_s * 2, self._alive)

    def _aftermath(self, told: Mapping[str, Any]) -> Aftermath:
        """What was announced since a fault; asked with `changed` held, or when nothing more is waited for."""
        fields = {name: told[name] for name in Evidence.model_fields if name in told}
        return Aftermath(Evidence(**fields), [*self._watch.seen, *self._readings])

    def _note_miss(self, planned: PlannedFault, epoch: int, why: str) -> Came:
        done = f"{SAID[planned.strike.kind]} {planned.strike.target}"
        self._say(f"… {done} in epoch {epoch} at {planned.phase}: missed, {why}")
        return Came.MISSED

    def _report(
        self,
        planned: PlannedFault,
        victims: list[str],
        told: Mapping[str, Any],
        came: Came,
        effect: Effect,
    ) -> None:
        named = " and ".join(who.partition("@")[0] for who in victims)
        target = "executor" if planned.strike.target == EVERY_EXECUTOR else planned.strike.target
        # A task's name begins with what it is.
        named = named.removeprefix(f"{target} ")
        lasted = f" for {told['stopped_s']} s" if told.get("stopped_s") else ""
        lasted += f", {sum(told['requests'].values())} requests" if told.get("requests") else ""
        lasted += f", {len(told['leaders'])} leaders" if told.get("leaders") else ""
        lasted += f" by {told['clock_step_s']:+} s" if told.get("clock_step_s") else ""
        lasted += f" ({told['response']})" if told.get("response") else ""
        lasted += f" for {told['cut_s']} s, direction {told['direction']}" if told.get("cut_s") else ""
        if told.get("slowed_s") and (took := told["latency_ms"]).get("during"):
            lasted += f" for {told['slowed_s']} s, a write took {took['during']} ms, before {took['before']} ms"
        lasted += f" for {told['held_s']} s, {told['kept']} records" if told.get("held_s") else ""
        hit = came is Came.HIT
        outcome = f"the next epoch was published after {told['recovered_s']} s" if hit else "missed"
        outcome += ", absorbed by copies" if hit and effect is Effect.ABSORBED else ""
        outcome = "without effect" if came is Came.WITHOUT_EFFECT else outcome
        done = f"{SAID[planned.strike.kind]} {target} {named}{lasted}"
        self._say(f"{'✓' if hit else '…'} {done} in epoch {told['epoch']} at {planned.phase}: {outcome}")

    def _alive(self) -> str | None:
        return "the run ends" if self._broken_off.is_set() else self._drivers.alive()

    def _was_running(self, epoch: int, at: int) -> bool:
        """Whether the fault came between the epoch's last declaration before it and the publication that followed."""
        told = self._watch.find_announced("epoch", 0, epoch=epoch)
        declared = max((one["t"] for one in told if one["state"] == "declared" and one["t"] <= at), default=None)
        if declared is None:
            return False
        published = [one["t"] for one in told if one["state"] == "published" and one["t"] >= declared]
        return not published or at <= min(published)
