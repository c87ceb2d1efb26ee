"""`make run` ends and goes on: what was sent, published and decided stays, after Ctrl-C as after SIGKILL."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from infra.embedded.process import Child, wait_for
from infra.embedded.run_state import RunState
from infra.new_pipeline import new_pipeline
from infra.toolchain.postgres import HOW, find_postgres
from infra.toolchain.prepare import CHECKOUT

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NAME = "run_again"
RUNS_S, EPOCH_S, END_S, COMMAND_S = 120.0, 90.0, 60.0, 60.0
CLOSED_MS = 180_000
"""An event time that closes the window of all others: its length and its lateness."""
DECLARATION = """
import pyarrow as pa
from effectively_once import Count, Pipeline, Sum, ToFiles, ToKafka, ToTable, Windowed, json_records


def orders(frame):
    return json_records(frame, "id string, event_time_ms long, key string, amount long")


pipeline = Pipeline(
    transform=orders,
    columns=pa.schema([("key", pa.string()), ("amount", pa.int64())]),
    rows=(ToKafka("accepted", key="key"), ToTable("bought")),
    windows=(
        Windowed(
            by="key",
            values={"count": Count(), "amount": Sum("amount")},
            to=ToKafka("per_minute", key="key"),
            totals=ToFiles("total"),
        ),
    ),
    window_ms=60_000,
    lateness_ms=120_000,
)
"""


class User:
    """Somebody who starts, feeds and reads a pipeline; everything it keeps is in a folder of the test."""

    def __init__(self, root: Path) -> None:
        self.root, self.state = root, root / "state" / "run" / NAME
        self._own, self._runs, self._folders = root / "own", list[Child](), list[Path]()
        new_pipeline(NAME, self._own)
        (self._own / "src" / NAME / "__init__.py").write_text(DECLARATION)

    def begin(self, *words: str) -> Child:
        """Start `make run`."""
        command = [sys.executable, "-m", "tests.cli", "run", "--at", str(self._own), *words]
        log = self.root / f"run-{len(self._runs)}.log"
        environment = {"EFFECTIVELY_ONCE_STATE": str(self.root / "state")}
        self._runs.append(Child("make run", command, log, cwd=CHECKOUT, env=environment))
        return self._runs[-1]

    def run(self, *words: str) -> Child:
        """Start it, and return when its driver is up."""
        child = self.begin(*words)
        wait_for("the pipeline", RUNS_S, lambda: f"{NAME} runs" in child.log.read_text(), child)
        self._folders.append((CHECKOUT / "runs" / f"run-{NAME}").resolve())
        return child

    def send(self, *records: dict[str, Any]) -> None:
        """Return when the broker has acknowledged all of them."""
        self._program("send", text="".join(f"{json.dumps(record)}\n" for record in records))

    def read(self, sink: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._program("read", sink).splitlines()]

    def wait_for(self, *records: dict[str, Any]) -> None:
        """Wait until records are accepted: so is, or is refused, all that was sent before them."""
        wanted = {record["id"] for record in records}
        wait_for(
            f"{len(wanted)} records", EPOCH_S, lambda: wanted <= {row["id"] for row in self.read("accepted")}, poll_s=1
        )

    def tidy(self) -> None:
        for child in self._runs:
            child.stop(END_S)
        if self.state.exists():
            # As root the database is elsewhere.
            RunState(self.state).open({}, fresh=True, say=lambda _: None)
        for folder in self._folders:
            shutil.rmtree(folder)
        (CHECKOUT / "runs" / f"run-{NAME}").unlink(missing_ok=True)

    def _program(self, name: str, *words: str, text: str = "") -> str:
        command = [str(self._folders[-1] / name), *words]
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=COMMAND_S, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    if find_postgres() is None:
        pytest.skip(HOW)
    made = User(tmp_path)
    yield made
    made.tidy()


def orders(numbers: range) -> list[dict[str, Any]]:
    """All of the first minute."""
    return [
        {"id": f"o{number}", "event_time_ms": number * 100, "key": "ab"[number % 2], "amount": number}
        for number in numbers
    ]


def amounts(records: Sequence[dict[str, Any]]) -> tuple[int, int]:
    return len(records), sum(record["amount"] for record in records)


def test_a_run_goes_on_where_it_was_and_everything_is_published_once(user: User) -> None:
    first = user.run()
    assert "goes on with" not in first.log.read_text()
    user.send(*orders(range(20)))
    user.wait_for(*orders(range(20)))
    refused = user.begin()
    assert refused.wait(RUNS_S)
    assert (refused.status(), f"{NAME} runs already, by process" in refused.log.read_text()) == (2, True)
    # In the middle of an epoch, or before it has begun: the broker alone knows of these.
    user.send(*orders(range(20, 40)))
    first.signal(signal.SIGINT)
    assert first.wait(END_S)
    assert first.status() == 0, first.post_mortem()

    second = user.run()
    assert f"{NAME} goes on with epoch " in second.log.read_text()
    assert f"goes on with epoch 0: {user.state}" not in second.log.read_text()
    user.send(*orders(range(40)))
    user.send(*orders(range(40, 60)))
    user.wait_for(*orders(range(60)))
    user.send(*orders(range(60, 80)))
    # Guard and command at once: nobody stops the servers in order, or sweeps up after them.
    os.killpg(second.pid, signal.SIGKILL)
    assert second.wait(END_S)

    third = user.run()
    assert f"{NAME} goes on with epoch " in third.log.read_text()
    user.send(*orders(range(80)))
    user.send(*orders(range(80, 100)))
    user.wait_for(*orders(range(100)))
    closing = [{"id": f"c{turn}", "event_time_ms": CLOSED_MS + turn, "key": "a", "amount": 0} for turn in range(2)]
    for record in closing:
        # A window is closed by the epoch after that of the record which is late enough.
        user.send(record)
        user.wait_for(record)
    wait_for("the total", EPOCH_S, lambda: bool(user.read("total")), third, poll_s=1)
    once = Counter(record["id"] for record in [*orders(range(100)), *closing])
    for sink in ("accepted", "bought"):
        assert Counter(row["id"] for row in user.read(sink)) == once
    (total,) = user.read("total")
    assert (total["window_start_ms"], total["count"], total["amount"]) == (0, *amounts(orders(range(100))))
    by_key = {row["key"]: (row["count"], row["amount"]) for row in user.read("per_minute")}
    assert len(user.read("per_minute")) == 2
    assert by_key == {"a": amounts(orders(range(0, 100, 2))), "b": amounts(orders(range(1, 100, 2)))}
    assert user.read("dead_letter") == []
    third.signal(signal.SIGINT)
    assert third.wait(END_S)
    assert third.status() == 0, third.post_mortem()

    anew = user.run("--fresh")
    assert "begins anew: removes the input, chain and sinks" in anew.log.read_text()
    assert "goes on with" not in anew.log.read_text()
    assert [user.read(sink) for sink in ("accepted", "bought")] == [[], []]
