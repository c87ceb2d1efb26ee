"""Kills of fraud detection, embedded and in pods: whom they strike, since when who is back, and what history tells."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest

from infra.embedded.process import ServerError
from tests.experiments.fraud import kills
from tests.experiments.fraud.kills import Strike, executor_named
from tests.experiments.fraud.outputs import Outputs
from tests.experiments.fraud.plan import AGGREGATOR, STORE
from tests.harness.adapters.drivers import NoProcessError, Struck
from tests.harness.faults.fault import Fault
from tests.harness.history import History
from tests.harness.stack.processes import Processes

AT = 5_000
Event = dict[str, Any]


def role(name: str, state: str, t: int, pod: str, **fields: Any) -> Event:
    who = {"pid": 9, "pod": pod, "pod_uid": f"u-{pod}"}
    return {"event": "role", "role": name, "state": state, "t": t, **who, **fields}


class Drivers:
    """Drivers whose next executor announces itself once the former one was killed."""

    def __init__(self, seen: list[Event], next_ones: list[Event]) -> None:
        self.seen, self.next_ones = seen, next_ones

    def kill_executor(self, event: Mapping[str, Any]) -> Struck:
        self.seen += self.next_ones
        return f"{event['pod']}@{event['pod_uid']}", AT


class Fall(Fault):
    """A store that is away until it is healed."""

    def __init__(self, told: list[str]) -> None:
        self.told = told

    def arm(self) -> None:
        self.told.append("arm")

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        self.told.append("strike")
        return [("db@u/1", AT)]

    def endure(self) -> None:
        self.told.append("endure")

    def heal(self) -> None:
        self.told.append("heal")

    def after(self) -> list[str]:
        return ["db@u/2"]


def struck(
    tmp_path: Path,
    target: str,
    seen: list[Event],
    next_ones: list[Event],
    *,
    fall: Fault | None = None,
    began: list[int | None] | None = None,
    away: Any = lambda: None,
) -> tuple[Strike, list[Event]]:
    watch = SimpleNamespace(seen=seen, changed=threading.Condition())
    arm = SimpleNamespace(drivers=(Drivers(seen, next_ones),), watch=watch)
    outputs = SimpleNamespace(began_ms=lambda: (began or []).pop(0))
    with History(tmp_path / "history.jsonl") as history:
        strike = Strike(
            target,
            cast("Processes", arm),
            fall=lambda _: fall or Fall([]),
            outputs=cast("Outputs", outputs),
            history=history,
            while_down=away,
        )
        strike.run()
    rows = [orjson.loads(line) for line in (tmp_path / "history.jsonl").read_bytes().splitlines()]
    return strike, [row for row in rows if row["event"] == "fault"]


def test_an_analyzer_is_back_once_another_pod_has_read_its_history_again(tmp_path: Path) -> None:
    seen = [
        role("count", "started", 10, "a"),
        role("count", "rebuilt", 20, "a", transactions=0, youngest_ms=None),
        role("average", "started", 6_000, "c"),
    ]
    comes = [role("count", "started", 7_000, "b"), role("count", "rebuilt", 8_000, "b", transactions=5, youngest_ms=30)]
    strike, (fault,) = struck(tmp_path, "count", seen, comes)
    assert strike.error is None
    assert (fault["process_before"], fault["process_after"]) == ("a@u-a", "b@u-b")
    assert (fault["injected_at"], fault["replaced_at"], fault["skipped"], fault["youngest_ms"]) == (AT, 7_000, 5, 30)


@pytest.mark.parametrize(
    "comes",
    [
        [role("count", "started", 7_000, "b")],
        [role("count", "started", 7_000, "a"), role("count", "rebuilt", 8_000, "a")],
        [role("count", "rebuilt", 8_000, "b")],
        [],
    ],
)
def test_one_that_does_not_come_back_on_another_executor_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, comes: list[Event]
) -> None:
    monkeypatch.setattr(kills, "REPLACED_S", 0.2)
    seen = [role("count", "started", 10, "a"), role("count", "rebuilt", 20, "a")]
    strike, faults = struck(tmp_path, "count", seen, comes)
    assert isinstance(strike.error, ServerError)
    assert faults == []


def test_an_aggregator_is_back_once_it_has_started(tmp_path: Path) -> None:
    seen = [role(AGGREGATOR, "started", 10, "a")]
    strike, (fault,) = struck(tmp_path, AGGREGATOR, seen, [role(AGGREGATOR, "started", 7_000, "b")])
    assert strike.error is None
    assert (fault["replaced_at"], fault["skipped"]) == (7_000, None)


def test_a_role_that_nobody_runs_cannot_be_killed_and_who_is_no_worker_has_no_name(tmp_path: Path) -> None:
    strike, faults = struck(tmp_path, "count", [], [])
    assert isinstance(strike.error, NoProcessError)
    assert faults == []
    assert executor_named({"pid": os.getpid()}) is None


def test_the_store_is_back_since_the_start_of_the_server_that_answers_then(tmp_path: Path) -> None:
    told: list[str] = []
    # Nobody answers; then the struck server's own start; then that of the next one.
    strike, (fault,) = struck(
        tmp_path, STORE, [], [], fall=Fall(told), began=[None, AT - 1, AT + 900], away=lambda: told.append("ask")
    )
    assert strike.error is None
    assert told == ["arm", "strike", "ask", "endure", "heal"]
    assert (fault["process_before"], fault["process_after"], fault["restarted_at"]) == ("db@u/1", "db@u/2", AT + 900)


def test_a_store_is_healed_whatever_goes_wrong_meanwhile(tmp_path: Path) -> None:
    told: list[str] = []

    def nobody() -> None:
        raise RuntimeError("the presenter is gone")

    strike, faults = struck(tmp_path, STORE, [], [], fall=Fall(told), away=nobody)
    assert str(strike.error) == "the presenter is gone"
    assert told == ["arm", "strike", "heal"]
    assert faults == []
