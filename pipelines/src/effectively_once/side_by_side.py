"""Waits that take the time of the longest: work in threads that are all over when the caller goes on.

No thread outlives its call, whatever fails in it or beside it. So nothing of an epoch goes on behind its end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import structlog

log = structlog.get_logger()
S = TypeVar("S")
T = TypeVar("T")
Turn = Callable[[], None]
"""Waits until it is one's turn. Raises where somebody before failed: then nobody behind gets one."""
AT_ONCE: Turn = lambda: None  # noqa: E731
"""The turn of who has nobody before."""


class _NoTurnError(Exception):
    """Somebody before failed, and tells of it."""


@contextmanager
def beside(what: str, work: Callable[[], object]) -> Iterator[None]:
    """Do work beside a block, and wait for it at the block's end.

    Args:
        what: names the work, for logs.
        work: must touch nothing that the block touches.

    Raises:
        BaseException: what the block raised, else what the work did. Of two the work's is logged.

    """
    with ThreadPoolExecutor(1, what) as pool:
        done = pool.submit(work)
        try:
            yield
        except BaseException:
            if (error := done.exception()) is not None:
                log.warning("failed beside something that failed", what=what, error=str(error))
            raise
        done.result()


def in_turn(what: str, works: Sequence[Callable[[Turn], T]]) -> list[T]:
    """Do several works side by side, and a part of each in their order: what follows the call of its turn.

    All before that part has to be harmless where somebody before fails, as it is done then too.

    Args:
        what: names the works, for logs.
        works: get their turn.

    Returns:
        What each returned.

    Raises:
        BaseException: of the first in order that failed, once all are over. What others failed with is logged.

    """
    if len(works) == 1:
        return [works[0](AT_ONCE)]
    found: list[Future[T]] = []
    with ThreadPoolExecutor(max(1, len(works)), what) as pool:
        for work in works:
            found.append(pool.submit(work, partial(_await, tuple(found))))
    errors = [error for one in found if not isinstance(error := one.exception(), _NoTurnError | None)]
    for error in errors[1:]:
        log.warning("failed beside something that failed", what=what, error=str(error))
    if errors:
        raise errors[0]
    return [one.result() for one in found]


def _await(before: Sequence[Future[T]]) -> None:
    if any(one.exception() is not None for one in before):
        raise _NoTurnError


def take_each(
    what: str,
    read: Callable[[S], T],
    over: Sequence[tuple[int, S]],
    take: Callable[[T], object],
    *,
    at_once: int,
    most: int,
) -> None:
    """Read each of some things, several at once, and take what is read one after the other, in their order.

    Args:
        what: names it, for logs.
        read: is called in threads.
        over: sizes of what to read, and what to read.
        take: is called in this thread.
        at_once: how many are read, or are there and wait to be taken, at most.
        most: so large are these together at most, unless it is one alone.

    Raises:
        BaseException: of the first in order that cannot be read, or is not taken. Nothing is taken behind it.

    """
    if len(over) <= 1:
        for _, one in over:
            take(read(one))
        return
    rest, due, held = deque(over), deque[tuple[int, Future[T]]](), 0
    with ThreadPoolExecutor(at_once, what) as pool:
        try:
            while rest or due:
                while rest and (not due or (len(due) < at_once and held + rest[0][0] <= most)):
                    size, one = rest.popleft()
                    due.append((size, pool.submit(read, one)))
                    held += size
                take(due[0][1].result())
                held -= due.popleft()[0]
        finally:
            for _, future in due:
                future.cancel()
