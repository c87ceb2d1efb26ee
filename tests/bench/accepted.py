"""Accepted rows that an arm published, compared with what was sent: none is missing, changed, or there too often."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
import orjson

from tests.bench.errors import BenchError
from tests.bench.s1_events import Events, Whole

FIELDS = ("id", "user", "event_time_ms", "payload", "crc")
"""Of an event. What an arm says beside them (its epoch, where a row came from) is its own."""


def compare(arm: str, rows: Iterable[bytes], events: Events, *, copies: bool) -> None:
    """Compare accepted rows with the events that were sent: each of them once, or with its copies.

    Raises:
        BenchError: they are others, or another number of them.

    """
    found, due = _digests(rows), _sent(events, copies)
    if not np.array_equal(found, due):
        raise BenchError(
            f"{arm}: {len(found):,} rows were accepted, {len(np.unique(found)):,} of them different and "
            f"{len(np.setdiff1d(found, due)):,} never sent; {len(due):,} are due, {len(np.unique(due)):,} of them "
            "different: its speed means nothing"
        )


@lru_cache(maxsize=4)
def _sent(events: Events, copies: bool) -> Whole:
    sent = _digests(events.values())
    return sent if copies else np.unique(sent)


def _digests(rows: Iterable[bytes]) -> Whole:
    """Return a number of 64 bits for each row, in order; equal ones for equal events, in this process."""
    lines = map(orjson.loads, rows)
    return np.sort(np.fromiter((hash(tuple(line.get(field) for field in FIELDS)) for line in lines), np.int64))
