"""A kill in a burst: the rest of the records waits until the process knows where it is to stop."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from effectively_once_jobs.two_ways.stage import NOTED, TAKEN
from tests.experiments.two_ways import kills as module
from tests.experiments.two_ways.kills import OperatorKills
from tests.experiments.two_ways.plan import BURST, OPERATOR, Part, Plan, Strike
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.events import Watch
from tests.harness.history import History
from tests.harness.workload.record import Planned

STRIKE = Strike(1, 3, NOTED, OPERATOR)
RECORDS = list(Plan(7).stream(6))


class Nobody:
    """Holds whoever is asked for, and finds no process to kill."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def ask(self, point: str, **where: Any) -> None:
        self.asked.append((point, where))

    def held(self, _: float) -> dict[str, Any]:
        return {"pid": 1}

    def release(self) -> None:
        pass

    def kill_driver(self) -> tuple[str, int]:
        raise NoProcessError("no driver runs")


class Kills:
    """The kill of one part, and what it is told."""

    def __init__(self, path: Path, history: History) -> None:
        self.nobody, self.watch = Nobody(), Watch(path / "events.jsonl", history)
        self.watch.start()
        runs: Any = dict.fromkeys(range(2), self.nobody)
        self.kills = OperatorKills(
            Part(BURST, 1, range(6)), [STRIKE], runs, self.watch, self.nobody, history=history, say=lambda _: None
        )

    def taken(self, operator: int, rows: int) -> None:
        with self.watch.path.open("ab", buffering=0) as file:
            file.write(orjson.dumps({"t": 1, "event": TAKEN, "operator": operator, "rows": rows}) + b"\n")


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Kills]:
    with History(tmp_path / "history.jsonl") as history:
        one = Kills(tmp_path, history)
        yield one
        one.kills.stop_asked.set()
        one.watch.stop()


def first(made: Kills) -> Iterator[Planned]:
    """The records behind the first three."""
    records = made.kills.gate(RECORDS)
    assert [next(records) for _ in range(STRIKE.rows)] == RECORDS[: STRIKE.rows]
    return records


def test_the_rest_follows_once_the_hold_is_asked_for(made: Kills) -> None:
    rest = first(made)
    made.kills.start()
    made.taken(0, 3)
    made.taken(1, 2)
    assert made.nobody.asked == []
    made.taken(1, 1)
    assert list(rest) == RECORDS[STRIKE.rows :]
    assert made.nobody.asked == [(NOTED, {"operator": 1})]


def test_records_that_no_operator_takes_end_it(made: Kills, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REPLACED_S", 0.1)
    rest = first(made)
    made.kills.start()
    with pytest.raises(TimeoutError, match="3 records of burst 1 were not taken"):
        next(rest)


def test_who_stops_to_kill_keeps_nothing_back(made: Kills) -> None:
    rest = first(made)
    made.kills.start()
    made.kills.end()
    assert list(rest) == RECORDS[STRIKE.rows :]
    assert made.nobody.asked == []
