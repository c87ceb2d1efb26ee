"""One change after the other at a pipeline that records flow through: made, seen, gone on after."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from infra.errors import UserError
from tests.harness.adapters.events import Watch
from tests.harness.checkers.changes import EVENT
from tests.harness.checkers.shards import FIELD
from tests.harness.faults.fault import now_ms
from tests.harness.history import History
from tests.harness.upgrade.changes import Step
from tests.harness.upgrade.look import Look

EFFECT_S, CALM_S, POLL_S = 180.0, 300.0, 1.0
"""An update returns once all is ready; what it brought is seen moments later."""
EVERY_S = 5.0
"""A portion of records comes so often while changes are made."""
ENDING_S = 1500.0
"""An update that is under way ends within its own limits; it is waited for, so that no other begins beside it."""


class Deployed(Protocol):
    """The stack, and what is seen of it."""

    def change(self, sets: Mapping[str, str], bump: int | None) -> None:
        """Set settings, build and load a wheel of that number, and update. Raises UserError, with what Pulumi said."""

    def look(self) -> Look:
        """See what there is now. Raises UserError, OSError."""

    def keep_settings(self, settings: Mapping[str, Any]) -> str:
        """Write what a driver is to read into the run directory; the file's name."""


class Changes(threading.Thread):
    """Makes changes. See Meanwhile.

    Args:
        steps: in this order.
        deployed: the stack.
        watch: what the pipeline announces.
        history: where changes are written down.
        say: told what came of each.
        give_up: told when the pipeline does not go on: nothing more is done.
        clock: seconds from any beginning.
        poll_s: between two looks.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        deployed: Deployed,
        watch: Watch,
        history: History,
        *,
        say: Callable[[str], None],
        give_up: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        poll_s: float = POLL_S,
    ) -> None:
        super().__init__(name="changes", daemon=True)
        self._steps, self._deployed, self._watch, self._history = steps, deployed, watch, history
        self._say, self._give_up, self._clock, self._poll_s = say, give_up, clock, poll_s
        self._granted_at = -EVERY_S
        self.stop_asked = threading.Event()
        self.waiting = threading.Event()
        self.drained = threading.Event()
        self.error: BaseException | None = None

    @property
    def says(self) -> str:
        """What is done, for the console."""
        return f"{len(self._steps)} changes"

    def more(self) -> bool:
        """Whether a portion may be sent: one every few seconds, so that they last; all of them in the end."""
        if self.waiting.is_set():
            return True
        if (now := self._clock()) - self._granted_at < EVERY_S:
            return False
        self._granted_at = now
        return True

    def end(self) -> None:
        """Begin nothing more, and wait for an update that is under way. Safe to repeat."""
        self.stop_asked.set()
        if self.is_alive():
            self.join(ENDING_S)

    def run(self) -> None:
        """Make them; one after which the pipeline does not go on is the last."""
        try:
            for number, step in enumerate(self._steps, 1):
                if self.stop_asked.is_set():
                    return
                self._say(f"  {number} of {len(self._steps)}: {step.name}, {step.says}")
                if stands := self._make(step):
                    self._give_up(stands)
                    return
        except BaseException as error:
            self.error = error
        finally:
            self.waiting.set()

    def _make(self, step: Step) -> str:
        """Make one change and write down what came of it; why the pipeline stands still, empty: it goes on."""
        told: dict[str, Any] = {"up_s": 0.0, "began": now_ms(), "seen": None, "lacks": "", "failed": "", "evidence": {}}
        stands = self._play(step, told)
        shards = {} if step.shards is None else {FIELD: step.shards}
        self._history.record(EVENT, name=step.name, says=step.says, bound_s=step.bound_s, **shards, **told)
        why = told["failed"] or told["lacks"]
        self._say(
            f"  ✗ {why}" if why else f"  ✓ {step.name}: an update of {told['up_s']:.0f} s, seen, and gone on after"
        )
        return stands

    def _play(self, step: Step, told: dict[str, Any]) -> str:
        if not self._await_epoch(now_ms(), CALM_S):
            told["lacks"] = self._without_load() or f"no epoch was published within {CALM_S:.0f} s before it"
            return "" if self.drained.is_set() else str(told["lacks"])
        before = self._deployed.look()
        told["began"], began_s = now_ms(), self._clock()
        try:
            told["failed"] = self._update(step)
        finally:
            told["up_s"] = round(self._clock() - began_s, 1)
        if not told["failed"]:
            now, why = self._await_effect(step, before)
            if why:
                told["lacks"] = f"the change did not take effect: {why}"
            else:
                told["seen"], told["evidence"] = now_ms(), self._note(step, before, now)
        since = told["seen"] or now_ms()
        if self._await_epoch(since, step.bound_s):
            return ""
        if lacks := self._without_load():
            told["lacks"] = told["lacks"] or lacks
            return ""
        stands = f"no epoch was published within {step.bound_s:.0f} s after it"
        told["failed"] = told["failed"] or stands
        return stands

    def _update(self, step: Step) -> str:
        """Update the stack; what went wrong, empty: nothing. What has to be put back is, whatever went wrong."""
        wrong = self._change(step)
        if step.undo:
            try:
                self._deployed.change(step.undo, None)
            except UserError as error:
                return "; ".join(filter(None, (wrong, f"{step.refused} could not be put back: {error}")))
        return wrong

    def _change(self, step: Step) -> str:
        try:
            self._deployed.change(step.sets, step.bump)
        except UserError as error:
            if not step.refused:
                return f"the update failed: {error}"
            told = step.refused in str(error)
            return "" if told else f"the update failed, and does not say that {step.refused} is refused: {error}"
        return f"another {step.refused} was taken, and is to be refused" if step.refused else ""

    def _await_effect(self, step: Step, before: Look) -> tuple[Look, str]:
        """Look until it has taken effect; what was seen, and why it has not."""
        until = self._clock() + EFFECT_S
        now, why = before, "nothing was seen"
        while True:
            with suppress(UserError, OSError):
                now = self._deployed.look()
                why = step.takes(before, now)
            if not why or self._clock() > until or self.stop_asked.is_set():
                return now, why
            time.sleep(self._poll_s)

    def _note(self, step: Step, before: Look, now: Look) -> dict[str, str]:
        """Return where the new value was seen; what the judge compares by itself is named."""
        found = {"driver": now.driver if now.driver != before.driver else "the one of before"}
        if step.bump is not None:
            found |= {"image": now.image, "wheel_digest": now.wheel_digest}
        if step.settings is not None:
            found["settings"] = self._deployed.keep_settings(step.settings)
        if now.executors != before.executors:
            found["executors"] = f"{before.executors} before, {now.executors} now"
        for role, pods in now.servers.items():
            old = {one.uid for one in before.servers.get(role, ())}
            if new := [one.uid for one in pods if one.uid not in old]:
                found[role] = f"{len(new)} of {len(pods)} pods are new"
        return found

    def _without_load(self) -> str:
        if self.stop_asked.is_set():
            return "the run ended before"
        return "all records were published before: nothing shows that the pipeline goes on" * self.drained.is_set()

    def _await_epoch(self, since: int, within_s: float) -> bool:
        """Wait for an epoch that is published from a moment on (ms); False: none was, or nothing is left to publish."""
        until = self._clock() + within_s
        while not self._watch.find_announced("epoch", since, state="published"):
            if self._clock() > until or self.drained.is_set() or self.stop_asked.is_set():
                return False
            time.sleep(self._poll_s)
        return True
