"""Work beside a block is over when the block is, whatever fails."""

from __future__ import annotations

import threading

import pytest
from structlog.testing import capture_logs

from effectively_once.side_by_side import beside

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


def _fail(what: str) -> None:
    raise ConnectionError(what)


def test_what_fails_in_the_work_is_raised() -> None:
    with pytest.raises(ConnectionError, match="store"), beside("work", lambda: _fail("store")):
        pass


def test_of_two_failures_the_block_is_raised_and_the_work_is_logged() -> None:
    with capture_logs() as logs, pytest.raises(ConnectionError, match="broker"), beside("work", lambda: _fail("store")):
        _fail("broker")
    assert [(line["what"], line["error"]) for line in logs] == [("work", "store")]
