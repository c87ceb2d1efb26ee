"""Waits that take the time of the longest: work in threads that are all over when the caller goes on.

No thread outlives its call, whatever fails in it or beside it. So nothing of an epoch goes on behind its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import structlog

log = structlog.get_logger()


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
