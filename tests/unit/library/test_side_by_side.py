"""Work side by side is over when the call is, whatever fails; what has an order keeps it."""

from __future__ import annotations

import threading
from typing import Never

import pytest
from structlog.testing import capture_logs

from effectively_once.side_by_side import Turn, beside, in_turn

WAIT_S = 20.0
"""For a condition that comes at once, or never."""


def test_work_and_block_go_on_at_once() -> None:
    both = threading.Barrier(2)
    with beside("work", lambda: both.wait(WAIT_S)):
        both.wait(WAIT_S)


@pytest.mark.parametrize("fails", [False, True])
def test_the_end_waits_for_the_work(fails: bool) -> None:
    """Also where the block fails: nothing goes on behind it."""
    left, done = threading.Event(), []

    def work() -> None:
        assert left.wait(WAIT_S)
        done.append(threading.current_thread())

    def run() -> None:
        with beside("work", work):
            left.set()
            if fails:
                raise InterruptedError("the block")

    if fails:
        with pytest.raises(InterruptedError, match="the block"):
            run()
    else:
        run()
    assert [thread.is_alive() for thread in done] == [False]


def _fail(what: str) -> Never:
    raise ConnectionError(what)


def test_what_fails_in_the_work_is_raised() -> None:
    with pytest.raises(ConnectionError, match="store"), beside("work", lambda: _fail("store")):
        pass


def test_of_two_failures_the_block_is_raised_and_the_work_is_logged() -> None:
    with capture_logs() as logs, pytest.raises(ConnectionError, match="broker"), beside("work", lambda: _fail("store")):
        _fail("broker")
    assert [(line["what"], line["error"]) for line in logs] == [("work", "store")]


def test_what_comes_before_a_turn_is_done_side_by_side() -> None:
    both = threading.Barrier(2)

    def work(turn: Turn) -> None:
        both.wait(WAIT_S)
        turn()

    in_turn("show", [work, work])


def test_turns_come_in_order() -> None:
    ready, shown = threading.Event(), []

    def first(turn: Turn) -> str:
        assert ready.wait(WAIT_S)
        turn()
        shown.append("first")
        return "one"

    def second(turn: Turn) -> str:
        ready.set()
        turn()
        shown.append("second")
        return "two"

    assert in_turn("show", [first, second]) == ["one", "two"]
    assert shown == ["first", "second"]


def test_behind_one_that_fails_nobody_has_a_turn() -> None:
    """However far it had come: what a driver shows ends with the first sink that refuses."""
    ready, shown = threading.Event(), []

    def first(_: Turn) -> None:
        assert ready.wait(WAIT_S)
        _fail("first")

    def behind(turn: Turn) -> None:
        ready.set()
        turn()
        shown.append("behind")

    with capture_logs() as logs, pytest.raises(ConnectionError, match="first"):
        in_turn("show", [first, behind, behind])
    assert not shown
    assert not logs, "who had no turn has nothing to tell"


def test_all_that_fails_is_told_of_and_the_first_in_order_is_raised() -> None:
    """And nobody is left running, whoever fails first."""
    failed, last, threads = threading.Event(), threading.Event(), []

    def first(_: Turn) -> None:
        assert failed.wait(WAIT_S)
        last.set()
        _fail("first")

    def second(_: Turn) -> None:
        failed.set()
        _fail("second")

    def third(_: Turn) -> None:
        assert last.wait(WAIT_S)
        threads.append(threading.current_thread())

    with capture_logs() as logs, pytest.raises(ConnectionError, match="first"):
        in_turn("show", [first, second, third])
    assert [line["error"] for line in logs] == ["second"]
    assert [thread.is_alive() for thread in threads] == [False]


def test_one_work_alone_takes_no_thread() -> None:
    assert in_turn("show", [lambda _: threading.current_thread()]) == [threading.current_thread()]
    assert in_turn("show", []) == []
