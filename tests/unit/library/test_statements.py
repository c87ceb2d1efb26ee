"""What sources say of themselves: which of it counts, given what the chain has read."""

from __future__ import annotations

from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest

from effectively_once.ledger.offsets import Ranges
from effectively_once.sources import statements
from effectively_once.sources.statement import Statement, decode
from effectively_once.sources.statements import Pending, Statements


def said(time_ms: int, source: str = "gate", **offsets: int) -> Statement:
    return Statement(source=source, time_ms=time_ms, offsets={name[1:]: end for name, end in offsets.items()})


def read(**ends: int) -> Ranges:
    return {"t": {name[1:]: (0, end) for name, end in ends.items()}}


def test_one_counts_once_all_that_it_speaks_of_is_read() -> None:
    pending = Pending("t", ["gate"])
    pending.hear(said(10, p0=5, p1=3))
    pending.hear(said(20, p0=9, p1=3))
    assert pending.take_passed({}) == {}
    assert pending.take_passed(read(p0=5, p1=2)) == {}
    assert pending.take_passed(read(p0=5, p1=3)) == {"gate": 10}
    assert pending.take_passed(read(p0=8, p1=3)) == {}
    assert pending.take_passed(read(p0=9, p1=4)) == {"gate": 20}


def test_the_latest_that_was_said_stands_whether_it_was_read_or_not() -> None:
    pending = Pending("t", ["gate"])
    for time_ms in (20, 10):
        pending.hear(said(time_ms, p0=5))
    pending.hear(said(99, "other"))
    assert pending.latest == {"gate": 20}
    assert pending.take_passed(read(p0=5)) == pending.latest
    assert (pending.take_passed(read(p0=6)), pending.latest) == ({}, {"gate": 20})


def test_a_partition_that_the_chain_has_not_read_holds_it_unless_it_has_nothing_there() -> None:
    pending = Pending("t", ["gate"])
    pending.hear(said(10, p0=5, p1=1))
    pending.hear(said(9, p0=5, p1=0))
    assert pending.take_passed(read(p0=5)) == {"gate": 9}


def test_of_sources_that_nobody_registered_nothing_counts() -> None:
    pending = Pending("t", ["gate"])
    pending.hear(said(10, "other", p0=0))
    assert pending.take_passed(read(p0=5)) == {}


def test_of_very_many_that_wait_the_last_one_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statements, "PENDING_MAX", 4)
    pending = Pending("t", ["gate"])
    for n in range(1, 100):
        pending.hear(said(n, p0=n))
    assert len(pending._waiting["gate"]) <= 4
    assert pending.take_passed(read(p0=98)) != {"gate": 98}, "some were forgotten"
    assert pending.take_passed(read(p0=99)) == {"gate": 99}


@pytest.mark.parametrize(
    "value", [None, b"", b"{", b'{"source": "a"}', b'{"source":"a","time_ms":1,"offsets":{"0":-1}}']
)
def test_what_is_no_statement_is_passed_over(value: bytes | None) -> None:
    assert decode(value) is None


def test_a_newer_gateway_may_say_more() -> None:
    assert decode(b'{"source":"a","time_ms":1,"offsets":{"0":1},"more":2}') == said(1, "a", p0=1)


def test_a_topic_that_ends_before_what_was_read_of_it_is_not_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was made anew, or another broker leads: nobody in it is silent, so nobody is let go."""
    end, values = 0, [said(10, p0=1).encode(), said(20, p0=1).encode()]
    consumer: Any = SimpleNamespace(
        assign=lambda _: None,
        get_watermark_offsets=lambda *_, **__: (0, end),
        consume=lambda *_: [
            SimpleNamespace(error=lambda: None, offset=lambda n=n: n, value=lambda v=v: v)
            for n, v in enumerate(values[:end])
        ],
    )
    monkeypatch.setattr(statements, "Consumer", lambda _: consumer)
    heard = Statements("h:1", "t", ["gate"], 1.0)
    for end, whole, time_ms in ((2, True, {"gate": 20}), (1, False, {}), (0, False, {}), (2, True, {})):  # noqa: B007
        assert (heard.take_passed(read(p0=1)), heard.heard) == (time_ms, whole)


def test_a_word_that_comes_while_others_are_read_is_heard_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the topic seems to end before what was read of it, and whoever is silent is never let go."""
    values = [said(time_ms, p0=1).encode() for time_ms in (10, 20, 30)]
    lines = [
        SimpleNamespace(error=lambda: None, offset=lambda n=n: n, value=lambda v=v: v) for n, v in enumerate(values)
    ]
    left, ends = iter(lines), iter((2, 3))
    consumer: Any = SimpleNamespace(
        assign=lambda _: None,
        get_watermark_offsets=lambda *_, **__: (0, next(ends)),
        consume=lambda number, _: [*islice(left, number)],
    )
    monkeypatch.setattr(statements, "Consumer", lambda _: consumer)
    heard = Statements("h:1", "t", ["gate"], 1.0)
    for time_ms in (20, 30):
        assert (heard.take_passed(read(p0=1)), heard.heard) == ({"gate": time_ms}, True)
