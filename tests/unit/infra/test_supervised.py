"""A driver of `make run` that has ended is started again: after which pause, and what is said meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from infra.embedded.process import Child
from infra.embedded.supervised import PAUSES_S, Supervised, explain
from infra.errors import UserError

LINE = "StepError: the transform failed (clicks.transform). Correct it."


class Ended:
    """A driver that has ended."""

    log = Path("/runs/run-clicks/logs/driver.log")

    def __init__(self, status: int = 71, said: str = f"INFO begun\n{LINE}\nINFO the session is closed") -> None:
        self._status, self._said = status, said

    def status(self) -> int:
        return self._status

    def post_mortem(self) -> str:
        return f"driver (pid 7) ended with {self._status}; last lines of {self.log}:\n{self._said}"

    def wait(self, timeout_s: float) -> bool:
        return timeout_s >= 0


def ended(status: int = 71, **how: str) -> Child:
    return cast(Child, Ended(status, **how))


class World:
    """What a supervisor starts, says and sleeps."""

    def __init__(self, *starts: Child | UserError) -> None:
        self._starts: Iterator[Child | UserError] = iter(starts)
        self.said: list[str] = []
        self.slept: list[float] = []

    def start(self) -> Child:
        one = next(self._starts)
        if isinstance(one, UserError):
            raise one
        return one

    def supervised(self, first: Child) -> Supervised:
        say: Callable[[str], None] = self.said.append
        return Supervised(first, self.start, say, self.slept.append)


def test_the_reason_is_the_errors_own_line_with_its_way_out() -> None:
    second = ended()
    world = World(second)
    driver = world.supervised(ended())
    assert driver.wait(0.5)
    driver.start_again()
    assert driver.child is second
    (said,) = world.said
    assert said.startswith(f"✗ the driver has ended with 71: {LINE}\n")
    assert str(Ended.log) in said
    assert "started again in 1 s" in said
    assert "what is published stays" in said


def test_one_that_says_no_error_is_told_by_its_last_lines() -> None:
    assert explain(ended(-9, said="INFO begun")).endswith("last lines of /runs/run-clicks/logs/driver.log:\nINFO begun")


def test_the_end_of_a_drain_is_no_error() -> None:
    assert "drain" in explain(ended(0))


def test_pauses_grow_to_the_longest_and_begin_anew_after_an_epoch() -> None:
    world = World(*(ended() for _ in range(len(PAUSES_S) + 2)))
    driver = world.supervised(ended())
    for _ in range(len(PAUSES_S) + 1):
        driver.start_again()
    assert world.slept == [*PAUSES_S, PAUSES_S[-1]]
    driver.make_progress()
    driver.start_again()
    assert world.slept[-1] == PAUSES_S[0]


def test_what_cannot_be_started_is_said_and_tried_again() -> None:
    """An author's file with a mistake in it: the run goes on, and its data are there when it is mended."""
    mended = ended()
    world = World(UserError("clicks: SyntaxError: invalid syntax"), UserError("still"), mended)
    driver = world.supervised(ended())
    driver.start_again()
    assert driver.child is mended
    assert [line.partition("\n")[0] for line in world.said[1:]] == ["✗ clicks: SyntaxError: invalid syntax", "✗ still"]
    assert world.slept == [*PAUSES_S[:3]]


def test_ctrl_c_ends_the_pause_and_the_run() -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    driver = Supervised(ended(), World().start, lambda _: None, interrupt)
    with pytest.raises(KeyboardInterrupt):
        driver.start_again()
