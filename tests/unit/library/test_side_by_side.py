"""Work side by side is over when the call is, whatever fails; what has an order keeps it."""

from __future__ import annotations

import threading
from typing import Never

import pytest
from structlog.testing import capture_logs

from effectively_once.side_by_side import Turn, beside, in_turn, take_each

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


def sized(number: int, size: int = 1) -> list[tuple[int, int]]:
    return [(size, one) for one in range(number)]


def test_several_are_read_at_once_and_taken_in_their_order() -> None:
    """The first one is the last to come."""
    all_read, last = threading.Barrier(3), threading.Event()
    taken: list[int] = []

    def read(number: int) -> int:
        all_read.wait(WAIT_S)
        if number == 2:
            last.set()
        assert last.wait(WAIT_S)
        return number

    take_each("fold", read, sized(3), taken.append, at_once=3, most=3)
    assert taken == [0, 1, 2]


@pytest.mark.parametrize(("size", "most", "waiting"), [(1, 20, 4), (5, 20, 4), (5, 10, 2), (50, 10, 1)])
def test_no_more_is_read_than_may_wait(size: int, most: int, waiting: int) -> None:
    """By number and by size; what is too large is read alone."""
    read: list[int] = []
    seen: list[int] = []

    def note(number: int) -> int:
        read.append(number)
        return number

    def take(number: int) -> None:
        seen.append(len(read) - number)

    take_each("fold", note, sized(20, size), take, at_once=4, most=most)
    assert len(seen) == 20
    assert max(seen) <= waiting, "of those that were read the ones before it are taken"


@pytest.mark.parametrize("where", ["read", "take"])
def test_nothing_is_taken_behind_one_that_fails(where: str) -> None:
    taken: list[int] = []

    def read(number: int) -> int:
        if (number, where) == (1, "read"):
            _fail("second")
        return number

    def take(number: int) -> None:
        if (number, where) == (1, "take"):
            _fail("second")
        taken.append(number)

    before = threading.active_count()
    with pytest.raises(ConnectionError, match="second"):
        take_each("fold", read, sized(9), take, at_once=3, most=9)
    assert taken == [0]
    assert threading.active_count() == before
