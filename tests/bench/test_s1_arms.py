"""An arm is measured by what it has done when, and only if what it published is right."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from effectively_once_jobs import user_counts
from tests.bench import counts, rates, s1_arms, s1_job
from tests.bench.errors import BenchError
from tests.bench.s1_arms import Run, Running, run_arm
from tests.bench.s1_events import Events

EVENTS = Events(2_000, users=20)
UNIQUE = [*dict.fromkeys(EVENTS.values())]
CLOSED = 15
"""Windows of 20: four batches are a tenth of the records, two minutes, and windows wait as long."""


class Stack:
    """A place without servers, and what a program published there."""

    servers = {"broker": os.getpid()}  # noqa: RUF012 - never changed
    endpoints = SimpleNamespace(kafka_bootstrap="nowhere:1")
    console = SimpleNamespace(say=lambda _: None)

    def __init__(self) -> None:
        self.topics: dict[str, list[list[bytes]]] = {"counts": [_counts(EVENTS)], "accepted": [UNIQUE]}
        self.ended: list[str] = []

    @contextmanager
    def ending(self, process: Any, name: str, topics: Any) -> Iterator[None]:
        try:
            yield
        finally:
            self.ended.append(name)

    def stream(self, _: str, topic: str) -> list[bytes]:
        """What is there now; of what it is to be later the last stays."""
        found = self.topics[topic]
        return found.pop(0) if len(found) > 1 else found[0]


def _counts(events: Events) -> list[bytes]:
    return [
        orjson.dumps({"user": user, "window_start_ms": start, "count": count})
        for (user, start), count in events.per_user(copies=False).items()
    ]


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Stack:
    made = Stack()
    monkeypatch.setattr(counts, "stream", made.stream)
    monkeypatch.setattr(s1_arms, "SETTLE_S", 0.0)
    monkeypatch.setattr(s1_arms, "SETTLE_POLL_S", 0.01)
    monkeypatch.setattr(rates, "POLL_S", 0.01)
    return made


def _take(stack: Stack, **changes: Any) -> dict[str, Any]:
    steps = iter([0, 500, 1_000, 2_000])
    process: Any = SimpleNamespace(pid=os.getpid(), running=lambda: True)
    seen = rates.follow(lambda: rates.Seen(time.time() * 1000, next(steps)))
    place: Any = stack
    run = Run(place, EVENTS, "r0", 50, "local[2]", "m", **{"accepted": True, **changes})
    return run_arm("ours", run, lambda _: Running(process, seen, "counts", "accepted", []))


def test_rows_and_cpu_seconds_are_those_from_the_warm_up_to_the_end(stack: Stack) -> None:
    sample = _take(stack)

    (_, first), *_, (_, last) = sample["seen"]
    assert (first, last) == (0, 2_000)
    assert sample["rows_per_s"] > 0
    assert set(sample["cpu_s_per_million"]) == {"arm", "broker"}
    assert sample["windows_compared"] == CLOSED
    assert stack.ended == ["r0"]


def test_what_is_visible_a_little_later_is_waited_for(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s1_arms, "SETTLE_S", 10.0)
    stack.topics["accepted"].insert(0, UNIQUE[:-1])

    assert _take(stack)["windows_compared"] == CLOSED


@pytest.mark.parametrize(
    ("topic", "rows", "why"),
    [
        ("accepted", UNIQUE[1:], "ours: 1,899 rows were accepted"),
        ("accepted", [*UNIQUE, UNIQUE[0]], "ours: 1,901 rows were accepted, 1,900 of them different"),
        ("counts", _counts(EVENTS)[1:], f"ours: 1 of {CLOSED} windows are wrong"),
        ("counts", [], f"ours: {CLOSED} of {CLOSED} windows are wrong"),
    ],
)
def test_an_arm_that_is_wrong_is_not_measured(stack: Stack, topic: str, rows: list[bytes], why: str) -> None:
    stack.topics[topic] = [rows]

    with pytest.raises(BenchError, match=why):
        _take(stack)
    assert stack.ended == ["r0"]


def test_one_that_publishes_no_accepted_rows_is_not_asked_for_them(stack: Stack) -> None:
    stack.topics["accepted"] = [[]]

    assert _take(stack, accepted=False)["windows_compared"] == CLOSED
    with pytest.raises(BenchError, match="windows are wrong"):
        _take(stack, accepted=False, drops=False)


def test_the_job_of_counts_alone_is_the_packaged_one_but_for_accepted_rows() -> None:
    packaged = user_counts.pipeline

    assert (s1_job.pipeline.rows, s1_job.pipeline.columns.names) == ((), ["user"])
    assert s1_job.pipeline.transform is packaged.transform
    assert s1_job.pipeline.windows == packaged.windows
