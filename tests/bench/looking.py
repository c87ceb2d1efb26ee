"""Looks at processes now and then, in a thread, while something else is measured."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psutil

from infra.embedded.process import descendants


@contextmanager
def look_regularly(look: Callable[[], None], every_s: float) -> Iterator[None]:
    """Call `look` every so many seconds for the time of the block, and once more at its end."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(every_s):
            look()

    looking = threading.Thread(target=run, name="looking", daemon=True)
    looking.start()
    try:
        yield
    finally:
        ended.set()
        looking.join()
        look()


def family(pid: int) -> Iterator[psutil.Process]:
    """Yield a process and all below it that are there."""
    with suppress(psutil.Error):
        yield psutil.Process(pid)
        yield from descendants(pid)
