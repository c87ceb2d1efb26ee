"""SIGKILLs of a run: the executor that a role runs on, or the result store, which is started again after a while."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from infra.embedded.postgres import PostgresServer
from infra.embedded.process import identity, wait_for
from infra.embedded.spark import executor_of
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.events import Watch
from tests.harness.faults.fault import killed, now_ms
from tests.harness.faults.healing import Healing
from tests.harness.faults.server import KilledServer
from tests.harness.fraud.plan import AGGREGATOR, STORE, STORE_DOWN_S
from tests.harness.history import History

REPLACED_S = 120.0


class Strike(threading.Thread):
    """One kill and its healing, beside the sender.

    Args:
        target: a role, or the store.
        watch: tells which process a role is.
        store: of the results.
        history: takes the fault once it is healed.
        while_down: called while the store is away.
    """

    def __init__(
        self, target: str, watch: Watch, store: PostgresServer, history: History, while_down: Callable[[], None]
    ) -> None:
        super().__init__(name=f"kill {target}", daemon=True)
        self.target, self._watch, self._store, self._history = target, watch, store, history
        self._while_down = while_down
        self.error: BaseException | None = None

    def run(self) -> None:
        """Strike; what goes wrong is kept for the play to raise."""
        try:
            self._struck_store() if self.target == STORE else self._struck_role()
        except BaseException as error:
            self.error = error

    def _struck_store(self) -> None:
        healing = Healing(lambda _: None)
        fault = KilledServer(self._store, STORE_DOWN_S, healing, threading.Event())
        try:
            ((who, at),) = fault.strike({})
            self._while_down()
            fault.endure()
        finally:
            # It may take decisions before it is seen here that it does.
            restarted_at = now_ms()
            fault.heal()
        self._record(who, at, identity(self._store.pid), restarted_at=restarted_at)

    def _struck_role(self) -> None:
        before = self._last("started")
        if before is None or (executor := executor_of(before["pid"])) is None:
            raise NoProcessError(f"no executor runs the role {self.target}")
        who, at = killed(executor)
        state = "started" if self.target == AGGREGATOR else "rebuilt"

        def back() -> bool:
            latest, there = self._last("started") or before, self._last(state) or before
            return bool(latest["pid"] != before["pid"] and min(latest["t"], there["t"]) > at)

        wait_for(f"the role {self.target} on another executor", REPLACED_S, back)
        after = self._last("started") or before
        process = executor_of(after["pid"])
        rebuilt = self._last("rebuilt") or {}
        self._record(
            who, at, identity(process.pid) if process else None, replaced_at=after["t"],
            skipped=rebuilt.get("transactions"), youngest_ms=rebuilt.get("youngest_ms"),
        )  # fmt: skip

    def _last(self, state: str) -> Mapping[str, Any] | None:
        with self._watch.changed:
            return next(
                (
                    event for event in reversed(self._watch.seen)
                    if event["event"] == "role" and event["role"] == self.target and event["state"] == state
                ),
                None,
            )  # fmt: skip

    def _record(self, before: str, at: int, after: str | None, **fields: Any) -> None:
        self._history.record(
            "fault", t=at, kind="sigkill", target=self.target, injected_at=at, process_before=before,
            process_after=after, **fields,
        )  # fmt: skip
