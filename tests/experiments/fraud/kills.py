"""SIGKILLs of a run: the executor that a role runs on, or the result store, which comes back after a while."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from infra.embedded.process import identity, wait_for
from infra.embedded.spark import executor_of
from tests.experiments.fraud.outputs import Outputs
from tests.experiments.fraud.plan import AGGREGATOR, STORE
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.faults.fault import Fault
from tests.harness.faults.healing import Healing
from tests.harness.history import History
from tests.harness.stack.processes import Processes

REPLACED_S = 120.0


class Strike(threading.Thread):
    """One kill and its healing, beside the sender.

    Args:
        target: a role, or the store.
        processes: the job.
        fall: makes the kill of the store.
        outputs: the store, as it is read.
        history: takes the fault once it is healed.
        while_down: called while the store is away.
    """

    def __init__(
        self,
        target: str,
        processes: Processes,
        *,
        fall: Callable[[Healing], Fault],
        outputs: Outputs,
        history: History,
        while_down: Callable[[], None],
    ) -> None:
        super().__init__(name=f"kill {target}", daemon=True)
        self.target, self._drivers, self._watch, self._history = target, processes.drivers[0], processes.watch, history
        self._fall, self._outputs, self._while_down = fall, outputs, while_down
        self.error: BaseException | None = None

    def run(self) -> None:
        """Strike; what goes wrong is kept for the play to raise."""
        try:
            self._strike_store() if self.target == STORE else self._strike_role()
        except BaseException as error:
            self.error = error

    def _strike_store(self) -> None:
        fault = self._fall(Healing(lambda _: None))
        fault.arm()
        try:
            ((who, at),) = fault.strike({})
            self._while_down()
            fault.endure()
        finally:
            fault.heal()
        # It takes decisions before anybody here is told that it does: since when, it says itself.
        began: list[int] = []

        def began_again() -> bool:
            began[:] = [one for one in [self._outputs.began_ms()] if one is not None and one > at]
            return bool(began)

        wait_for("the result store that was started again", REPLACED_S, began_again)
        after = fault.after()
        self._record(who, at, after[0] if after else None, restarted_at=began[0])

    def _strike_role(self) -> None:
        before = self._last("started")
        if before is None:
            raise NoProcessError(f"no executor runs the role {self.target}")
        who, at = self._drivers.kill_executor(before)
        state = "started" if self.target == AGGREGATOR else "rebuilt"
        now: dict[str, Mapping[str, Any]] = {}

        def back() -> bool:
            found = {one: event for one in ("started", state) if (event := self._last(one)) is not None}
            now.update({one: event for one, event in found.items() if event["t"] > at})
            return {"started", state} <= now.keys() and executor_named(now["started"]) not in (None, who)

        wait_for(f"the role {self.target} on another executor", REPLACED_S, back)
        rebuilt = now.get("rebuilt", {})
        self._record(
            who,
            at,
            executor_named(now["started"]),
            replaced_at=now["started"]["t"],
            skipped=rebuilt.get("transactions"),
            youngest_ms=rebuilt.get("youngest_ms"),
        )

    def _last(self, state: str) -> Mapping[str, Any] | None:
        with self._watch.changed:
            return next(
                (
                    event
                    for event in reversed(self._watch.seen)
                    if event["event"] == "role" and event["role"] == self.target and event["state"] == state
                ),
                None,
            )

    def _record(self, before: str, at: int, after: str | None, **fields: Any) -> None:
        self._history.record(
            "fault",
            t=at,
            kind="sigkill",
            target=self.target,
            injected_at=at,
            process_before=before,
            process_after=after,
            **fields,
        )


def executor_named(event: Mapping[str, Any]) -> str | None:
    """The executor whose worker announced an event, as history names it; None when that has ended."""
    if "pod_uid" in event:
        return f"{event['pod']}@{event['pod_uid']}"
    process = executor_of(event["pid"])
    return None if process is None else identity(process.pid)
