"""Announcements of the pipeline: followed while the file grows, kept in the history, waited for with a reason."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.harness.adapters.events import WaitTimedOutError, Watch
from tests.harness.faults.fault import now_ms
from tests.harness.history import History, read_history

LONG_S = 20.0
"""A bound that no passing test comes near."""

EVENTS: list[dict[str, Any]] = [
    {"t": 1_700_000_000_000, "event": "driver", "state": "started", "generation": 1, "driver": "näm€"},
    {"t": 1_700_000_000_300, "event": "epoch", "epoch": 0, "state": "declared", "in": 7},
    {"t": 1_700_000_000_200, "event": "step", "epoch": 0, "step": "committed", "sink": "accepted", "shard": 1},
    {"t": 1_700_000_000_400, "event": "epoch", "epoch": 0, "state": "published", "in": 7},
    {"t": 1_700_000_000_500, "event": "epoch", "epoch": 1, "state": "declared", "in": 3},
]


def alive() -> str | None:
    return None


class Announced:
    """A watched file that grows as a test says."""

    def __init__(self, folder: Path, history: History) -> None:
        self.watch = Watch(folder / "events.jsonl", history)
        self.history_path = history.path

    def append(self, content: bytes) -> None:
        with self.watch.path.open("ab", buffering=0) as file:
            file.write(content)

    def announce(self, *events: dict[str, Any]) -> None:
        """Append these, and wait until they were seen."""
        before = len(self.watch.seen)
        self.append(b"".join(orjson.dumps(event) + b"\n" for event in events))
        self.await_count(before + len(events))

    def await_count(self, count: int) -> None:
        self.watch.wait_for(f"{count} announcements", lambda: len(self.watch.seen) >= count, LONG_S, alive)


@pytest.fixture
def announced(tmp_path: Path) -> Iterator[Announced]:
    """Return a watch that follows an empty file."""
    with History(tmp_path / "history.jsonl") as history:
        one = Announced(tmp_path, history)
        one.watch.start()
        yield one
        one.watch.stop()


def test_lines_that_come_in_halves_are_taken_whole_and_in_order(announced: Announced) -> None:
    lines = [orjson.dumps(event) + b"\n" for event in EVENTS]
    # The first cut lies within a character of several bytes.
    cut = [lines[0].index("€".encode()) + 1, *(len(line) // 2 for line in lines[1:])]
    announced.append(lines[0][: cut[0]])
    for number, line in enumerate(lines):
        following = lines[number + 1][: cut[number + 1]] if number + 1 < len(lines) else b""
        announced.append(line[cut[number] :] + following)
        announced.await_count(number + 1)
        assert announced.watch.seen == EVENTS[: number + 1]
    announced.watch.stop()
    assert read_history(announced.history_path) == EVENTS


def test_what_was_announced_before_the_end_is_read_and_a_cut_line_is_not(announced: Announced) -> None:
    many = [{"t": number, "event": "step", "epoch": number} for number in range(3_000)]
    announced.append(b"".join(orjson.dumps(event) + b"\n" for event in many) + b'{"t": 1, "ev')
    announced.watch.stop()
    assert announced.watch.seen == many
    assert read_history(announced.history_path) == many


def test_the_running_epoch_is_declared_and_not_yet_published(announced: Announced) -> None:
    states: list[tuple[int | None, int]] = []
    for event in EVENTS:
        announced.announce(event)
        states.append((announced.watch.running, announced.watch.last_published))
    assert states == [(None, -1), (0, -1), (0, -1), (None, 0), (1, 0)]


def test_an_epoch_published_again_does_not_move_the_last_one_back(announced: Announced) -> None:
    announced.announce(*({"t": 1, "event": "epoch", "epoch": epoch, "state": "published"} for epoch in (4, 5, 4)))
    assert announced.watch.last_published == 5


def test_a_wait_that_times_out_names_what_it_waited_for_and_what_came_last(announced: Announced) -> None:
    with pytest.raises(
        WaitTimedOutError, match=r"^the first epoch did not come within 0 s; last announcement: nothing$"
    ):
        announced.watch.wait_for("the first epoch", lambda: False, 0.01, alive)
    announced.announce(EVENTS[1])
    with pytest.raises(WaitTimedOutError, match=r"^a new executor did not come .*'state': 'declared'"):
        announced.watch.wait_for("a new executor", lambda: False, 0.01, alive)


@pytest.mark.parametrize("before", [0, 2])
def test_a_pipeline_that_is_dead_or_dies_ends_a_wait_long_before_its_bound(announced: Announced, before: int) -> None:
    words = iter([*[None] * before, "driver-1 ended with exit code 137"])
    began = time.monotonic()
    with pytest.raises(WaitTimedOutError, match=r"^while waiting for an epoch: driver-1 ended with exit code 137$"):
        announced.watch.wait_for("an epoch", lambda: False, LONG_S, lambda: next(words))
    assert time.monotonic() - began < LONG_S / 2


def test_what_holds_already_is_not_waited_for_even_when_the_pipeline_is_dead(announced: Announced) -> None:
    announced.watch.wait_for("nothing", lambda: True, 0.0, lambda: "ended in order")


def test_the_next_step_is_looked_for_from_a_number_on(announced: Announced) -> None:
    steps = [{"t": t, "event": "step", "epoch": t, "step": "committed"} for t in range(4)]
    announced.announce(*steps)
    found = announced.watch.next_step(lambda event: event["epoch"] != 2, 2, threading.Event())
    assert found == steps[3]


def test_no_step_is_looked_for_once_the_run_stops(announced: Announced) -> None:
    announced.announce(EVENTS[2])
    stop = threading.Event()
    stopper = threading.Timer(0.1, stop.set)
    stopper.start()
    assert announced.watch.next_step(lambda event: event["epoch"] > 99, 0, stop) is None
    stopper.join()


@pytest.mark.parametrize("step_ms", [120_000, -120_000, 3_600_000, -3_600_000])
def test_what_is_dated_by_a_clock_that_was_stepped_gets_the_time_it_was_read_at(
    announced: Announced, step_ms: int
) -> None:
    """Here and in the history, which keep what it said itself; whoever dates rightly meanwhile is left as he is."""
    announced.watch.note_step(step_ms)
    before = now_ms()
    off = {"t": before + step_ms, "event": "epoch", "epoch": 0, "state": "declared"}
    right = {"t": before - 2_000, "event": "step", "epoch": 0, "step": "committed"}
    announced.announce(off, right)
    first, second = announced.watch.seen
    assert before <= first["t"] <= now_ms()
    assert first["told_t"] == off["t"]
    assert second == right
    announced.watch.stop()
    assert read_history(announced.history_path) == [first, second]


def test_what_is_late_but_not_off_by_a_step_that_was_made_keeps_its_time(announced: Announced) -> None:
    """A process that stood still announces late; without a step nothing is dated anew, and with one only what fits."""
    late = {"t": now_ms() - 120_000, "event": "step", "epoch": 0, "step": "committed"}
    announced.announce(late)
    announced.watch.note_step(120_000)
    announced.watch.note_step(-3_600_000)
    ahead = {**late, "t": now_ms() + 180_000}
    announced.announce(late, ahead)
    assert announced.watch.seen == [late, late, ahead]
