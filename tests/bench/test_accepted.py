"""Accepted rows are the events that were sent, each once: else the arm is wrong."""

from __future__ import annotations

from collections.abc import Callable

import orjson
import pytest

from tests.bench import accepted
from tests.bench.errors import BenchError
from tests.bench.s1_events import Events

EVENTS = Events(1_000, users=50, record_bytes=120)
SENT = [*EVENTS.values()]
UNIQUE = [*dict.fromkeys(SENT)]


def test_each_once_in_any_order_with_what_an_arm_says_beside_it() -> None:
    rows = [orjson.dumps({**orjson.loads(row), "epoch": 3, "source": ["t", 0, 1]}) for row in reversed(UNIQUE)]

    accepted.compare("ours", rows, EVENTS, copies=False)


def test_an_arm_that_keeps_copies_has_them_all() -> None:
    accepted.compare("streams", SENT, EVENTS, copies=True)
    with pytest.raises(
        BenchError, match="streams: 950 rows were accepted, 950 of them different and 0 never sent; 1,000 "
    ):
        accepted.compare("streams", UNIQUE, EVENTS, copies=True)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda rows: rows[1:], "949 rows were accepted, 949 of them different and 0 never sent; 950 are due"),
        (lambda rows: [*rows, rows[5]], "951 rows were accepted, 950 of them different"),
        (lambda rows: [rows[1], *rows[1:]], "950 rows were accepted, 949 of them different"),
        (lambda rows: [rows[0].replace(b'"crc":0', b'"crc":1'), *rows[1:]], "1 never sent"),
        (lambda rows: [rows[0].replace(b"xxx", b"xx"), *rows[1:]], "1 never sent"),
        (lambda rows: [b"{}", *rows], "951 rows were accepted, 951 of them different and 1 never sent"),
    ],
)
def test_a_lost_doubled_or_changed_row_is_refused(change: Callable[[list[bytes]], list[bytes]], why: str) -> None:
    with pytest.raises(BenchError, match=why):
        accepted.compare("ours", change(UNIQUE), EVENTS, copies=False)
