"""The case as a whole, on a stack that is made up: what is asked of the pipeline, and which runs are refused."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from effectively_once.pipeline.settings import PipelineSettings
from infra.console import Console
from infra.embedded.stack import Endpoints
from tests.bench import held, held_events
from tests.bench.errors import BenchError
from tests.bench.flink import Flink
from tests.bench.held_events import SLOW
from tests.bench.held_options import Asked
from tests.bench.held_table import BY_FRONT, BY_SLOWEST, BY_SPLIT
from tests.bench.memory import Peaks
from tests.bench.place import Place, Started
from tests.bench.s1_events import PARTITIONS, START_MS
from tests.bench.test_events import Clock
from tests.bench.test_processes import EXECUTOR, JAVA, WORKER
from tests.bench.visible import Visible

RECORDS, EPOCH_ROWS, BOUND = 4_000, 100, 7
ASKED = Asked(
    records=RECORDS, users=50, epoch_rows=EPOCH_ROWS, bound=BOUND, holds=[0, 5], rounds=2, seconds=50, per_s=80
)


class Servers(Place):
    """A place without servers: a driver has read everything as soon as it is started, and done it right."""

    def __init__(self, folder: Path) -> None:
        endpoints = Endpoints("localhost:1", "http://localhost:1", "key", "word", "data")
        super().__init__(None, endpoints, folder, Console(), None)  # type: ignore[arg-type]
        self.__dict__.update(
            started=[],
            sent=[],
            flinks=[],
            watched=[],
            late={},
            miscounts=0,
            lost=0,
            closes_at=None,
            commands=(JAVA, EXECUTOR, WORKER),
        )

    def __getattr__(self, name: str) -> Any:
        return self.__dict__[name]

    def create(self, topics: Any) -> None:
        """No broker is there."""

    def delete(self, topics: Any) -> None:
        """No broker is there."""

    def driver(self, name: str, module: str, settings: str, **_: Any) -> Started:
        assert module == "effectively_once_jobs.user_counts"
        (self.scratch / f"{name}.json").write_text(settings)
        given = PipelineSettings.model_validate_json(settings)
        self.started.append(given)
        late = self.late.get((given.idle_ms is None, given.held_rows_max), 0)
        events = self.scratch / f"{name}.jsonl"
        lines = [
            {"event": "epoch", "state": "published", "epoch": epoch, "t": 2_000_000 + 10 * epoch}
            | {"in": EPOCH_ROWS, "late": late, "ms": {"total": 5 + epoch}}
            for epoch in range(RECORDS // EPOCH_ROWS)
        ]
        events.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return Started(SimpleNamespace(pid=os.getpid(), kill=lambda: None), events)  # type: ignore[arg-type]

    def fill(self, _: str, topic: str, values: Any) -> int:
        times = [json.loads(value)["event_time_ms"] for value in values]
        self.sent.append(times)
        while self.watched:
            found = Counter(at - at % held.PACED_WINDOW_MS for at in times)
            found[START_MS] -= self.lost
            visible = self.watched.pop()
            for start, count in found.items():
                visible.see(json.dumps({"user": "u", "window_start_ms": start, "count": count}).encode(), 3_000_000.0)
        return 0

    def values(self, _: str, topic: str) -> list[bytes]:
        """Results of all windows, which are closed once the slow partition has come up."""
        given, times = self.started[-1], self.sent[-1]
        assert topic == f"{given.pipeline}.user_counts"
        stands = [number for number, at in enumerate(times) if number % PARTITIONS == SLOW and at == START_MS]
        first = max(stands, default=0) // EPOCH_ROWS if self.closes_at is None else self.closes_at
        found = Counter(at - at % given.window_ms for at in times)
        found[START_MS] += self.miscounts
        return [
            json.dumps({"user": "u", "window_start_ms": start, "count": count, "epoch": first + number % 3}).encode()
            for number, (start, count) in enumerate(sorted(found.items()))
        ]

    @contextmanager
    def watch_results(self, *_: str) -> Iterator[Visible]:
        """Results, which a reader sees as soon as all is sent."""
        visible = Visible()
        self.watched.append(visible)
        yield visible

    def start_flink(self, job: Flink) -> Any:
        self.flinks.append((job.window_ms, job.lateness_ms))
        return SimpleNamespace(pid=os.getpid(), kill=lambda: None, running=lambda: True)


@pytest.fixture
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Servers:
    made, clock = Servers(tmp_path), Clock()
    made.late.update({(False, BOUND): 3, (True, 1_000_000): 4})

    @contextmanager
    def opened() -> Iterator[Place]:
        yield made

    @contextmanager
    def watched(_: int) -> Iterator[Peaks]:
        peaks = Peaks()
        peaks.look((command, 2**20) for command in made.commands)
        yield peaks

    def paced(values: Any, per_s: int, sent: Any) -> Any:
        return held_events.paced(values, per_s, sent, clock, clock.sleep)

    for name, value in {"fill": made.fill, "open_place": opened, "paced": paced, "watch_memory": watched}.items():
        monkeypatch.setattr(held, name, value)
    monkeypatch.setattr("tests.bench.counts.values", made.values)
    monkeypatch.setattr(held, "watch_results", made.watch_results)
    monkeypatch.setattr(Flink, "start", lambda job, _: made.start_flink(job))
    monkeypatch.setattr(held, "LEAST_S", 1.0)
    monkeypatch.setattr("tests.bench.facts.CHECKOUT", tmp_path)
    monkeypatch.setattr("tests.bench.facts.machine", dict)
    return made


def test_each_arm_and_rule_is_run_in_each_round_with_settings_of_its_own(servers: Servers) -> None:
    text = held.measure(ASKED)
    told = [(one.idle_ms is not None, one.held_rows_max, one.window_ms) for one in servers.started]
    unbounded = (True, held.NO_BOUND, 60_000)
    first = [unbounded, unbounded, (True, BOUND, 60_000), (True, 1_000_000, 5_000), (False, 1_000_000, 5_000)]
    assert told == [*first, *first[2::-1], *first[:2:-1]]
    assert len({one.pipeline for one in servers.started}) == len(told)
    held_for = [sum(at == START_MS for at in times[::PARTITIONS]) for times in servers.sent]
    # Of 1,000 records in 20 minutes a quarter stands still in the first 5; by 20 of 50 s it is behind in the other.
    assert held_for[:5] == pytest.approx([0, 250, 250, 400, 400], abs=25)
    assert f"| held for 5 min, held_rows_max {BOUND} |" in text
    assert servers.flinks == [(5_000, 10_000)] * 2
    for rule in (BY_FRONT, BY_SLOWEST, BY_SPLIT):
        assert f"| {rule} |" in text


def test_what_was_interrupted_goes_on_where_it_was(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    wait = held._wait
    monkeypatch.setattr(held, "_wait", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        held.measure(ASKED)
    monkeypatch.setattr(held, "_wait", wait)
    (folder,) = (servers.scratch / "runs" / "bench").iterdir()
    before = len(servers.started)
    held.measure(ASKED.model_copy(update={"resume": folder}))
    assert (before, len(servers.started)) == (3, 10)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"late": {(False, held.NO_BOUND): 1, (False, BOUND): 3}}, "not held: 40 records were refused as late"),
        ({"late": {}}, "held_rows_max 7 was never reached"),
        ({"late": {(False, BOUND): 3, (False, 1_000_000): 1}}, f"{BY_SLOWEST}: 40 records were refused"),
        ({"commands": (JAVA, WORKER)}, "no memory of executors was seen"),
        ({"closes_at": 0}, "was to be held until 1,000"),
        ({"miscounts": 1}, "not held: 1 of .* windows are wrong"),
        ({"lost": 1}, f"{BY_SPLIT}: 1 records were refused"),
    ],
)
def test_a_run_that_tells_nothing_is_refused(servers: Servers, change: dict[str, Any], why: str) -> None:
    servers.__dict__.update(change)
    with pytest.raises(BenchError, match=why):
        held.measure(ASKED)
