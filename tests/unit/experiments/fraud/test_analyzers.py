"""Analyzers: points by a card's own history, the same whoever computes them, also after a restart two windows back."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from effectively_once_jobs.fraud.analyzers import ANALYZERS, MOST, Analyzer, average, count, proximity
from effectively_once_jobs.fraud.transaction import AHEAD_MS, Refusal, Transaction, parse
from tests.experiments.fraud import truth

NOW_MS, WINDOW_MS = 1_800_000_000_000, 1_000
GOOD: dict[str, Any] = {"id": "t1", "card": "c1", "amount_cents": 100, "event_time_ms": NOW_MS, "x_m": 0, "y_m": 0}


def made(offset: int, **changes: Any) -> Transaction:
    fields = {**GOOD, "id": f"t{offset}", **changes}
    arrived_ms = fields.pop("arrived_ms", NOW_MS)
    return Transaction((0, offset), arrived_ms, **fields)


def test_the_average_ticket_is_judged_from_the_third_transaction_on() -> None:
    few = [made(1, amount_cents=100), made(2, amount_cents=100)]
    assert average(few, made(9, amount_cents=10**6)) == 0
    before = [*few, made(3, amount_cents=100)]
    points = [average(before, made(9, amount_cents=amount)) for amount in (100, 200, 280, 600, 1_000, 10**6)]
    assert points == [0, 0, 10, 50, 100, 100]


def test_the_count_gives_twenty_points_for_each_transaction_beyond_the_fifth() -> None:
    assert [count([made(n) for n in range(number)], made(99)) for number in (0, 5, 6, 8, 40)] == [0, 0, 20, 60, MOST]


def test_proximity_is_speed_from_the_place_before_whatever_the_clocks_say() -> None:
    here = made(1)
    assert proximity([], made(2, x_m=10**7)) == 0
    hour = GOOD["event_time_ms"] + 3_600_000
    assert proximity([here], made(2, x_m=600_000, event_time_ms=hour)) == 50
    assert proximity([here], made(2, x_m=600_000, event_time_ms=GOOD["event_time_ms"] - 3_600_000)) == 50
    assert proximity([here], made(2, x_m=300, y_m=400)) == 100, "no time between them counts as a second: 1,800 km/h"
    assert proximity([here], made(2)) == 0


TRANSACTIONS = st.lists(
    st.tuples(st.integers(0, 700), st.integers(0, 1), st.integers(0, 4), st.integers(1, 500), st.integers(0, 10**5)),
    max_size=30,
)


@given(TRANSACTIONS, st.sampled_from(sorted(ANALYZERS)), st.integers(0, 40))
def test_points_are_those_of_a_plain_recomputation_and_of_an_analyzer_that_began_two_windows_back(
    drawn: list[tuple[int, int, int, int, int]], name: str, cut: int
) -> None:
    at, ones = NOW_MS, []
    for offset, (apart, card, id_, amount, x) in enumerate(drawn):
        at += apart
        fields = {"id": f"i{card}-{id_}", "card": f"c{card}", "amount_cents": amount, "x_m": x}
        ones.append(made(offset, **fields, arrived_ms=at, event_time_ms=at - x % 7))
    whole = Analyzer(ANALYZERS[name], WINDOW_MS)
    found = [whole.score(one) for one in ones]
    sends = [
        {
            "partition": 0,
            "offset": one.place[1],
            "arrived_ms": one.arrived_ms,
            "payload": orjson.dumps({name: getattr(one, name) for name in GOOD}).decode(),
        }
        for one in ones
    ]
    wanted = truth.due(sends, ["c0", "c1", "c2"], {name: WINDOW_MS})
    assert [points for points, one in zip(found, wanted, strict=True) if not one.reason] == [
        one.points[name] for one in wanted if not one.reason
    ]
    began_ms = ones[min(cut, len(ones) - 1)].arrived_ms + 1 if ones else NOW_MS
    again = Analyzer(ANALYZERS[name], WINDOW_MS)
    for one, points in zip(ones, found, strict=True):
        if one.arrived_ms >= began_ms - 2 * WINDOW_MS:
            scored = again.score(one)
            assert one.arrived_ms < began_ms or scored == points
    assert len(whole) <= len(ones)


def test_an_analyzer_forgets_what_is_a_window_back() -> None:
    analyzer = Analyzer(count, WINDOW_MS)
    for n in range(100):
        analyzer.score(made(n, arrived_ms=NOW_MS + n * 100))
        assert len(analyzer) <= WINDOW_MS // 100
    assert analyzer.score(made(200, arrived_ms=NOW_MS + 99 * 100)) == 100, "ten before it"
    assert analyzer.score(made(201, arrived_ms=NOW_MS + 10 * 10**6)) == 0


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"id": None}, "bad_id"),
        ({"id": ""}, "bad_id"),
        ({"id": "a b"}, "bad_id"),
        ({"id": "a\u0000"}, "bad_id"),
        ({"id": "x" * 65}, "bad_id"),
        ({"id": 7}, "bad_id"),
        ({"card": None}, "bad_card"),
        ({"card": "a/b"}, "bad_card"),
        ({"amount_cents": -5}, "bad_amount"),
        ({"amount_cents": 0}, "bad_amount"),
        ({"amount_cents": 2.5}, "bad_amount"),
        ({"amount_cents": "5"}, "bad_amount"),
        ({"amount_cents": True}, "bad_amount"),
        ({"amount_cents": 10**12 + 1}, "bad_amount"),
        ({"event_time_ms": -1}, "bad_time"),
        ({"event_time_ms": None}, "bad_time"),
        ({"event_time_ms": NOW_MS + AHEAD_MS + 1}, "ahead"),
        ({"x_m": None}, "bad_place"),
        ({"y_m": 10**9}, "bad_place"),
        ({"x_m": 0.5}, "bad_place"),
    ],
)
def test_what_is_no_transaction_gets_its_reason(changes: dict[str, Any], reason: str) -> None:
    found = parse(orjson.dumps({**GOOD, **changes}), (1, 2), NOW_MS)
    assert isinstance(found, Refusal)
    assert (found.reason, found.place, found.arrived_ms) == (reason, (1, 2), NOW_MS)
    assert found.id == (None if reason == "bad_id" else "t1"), "an id that could be asked for is kept"


@pytest.mark.parametrize("value", [None, b"", b"{", b"[]", b"7", b'"t"', b'{"id": NaN}', b"\xff"])
def test_what_is_no_json_object_is_refused(value: bytes | None) -> None:
    assert parse(value, (0, 0), NOW_MS) == Refusal((0, 0), NOW_MS, None, "not_json")


def test_a_transaction_on_the_boundaries_is_one() -> None:
    for changes in ({"amount_cents": 1}, {"event_time_ms": NOW_MS + AHEAD_MS}, {"x_m": -(10**8)}, {"more": [1]}):
        assert isinstance(parse(orjson.dumps({**GOOD, **changes}), (0, 0), NOW_MS), Transaction)


@given(st.binary(max_size=80))
def test_no_bytes_break_the_reader(value: bytes) -> None:
    assert isinstance(parse(value, (0, 0), NOW_MS), Refusal)


@pytest.mark.parametrize(("windows", "same"), [(1, False), (2, True)])
def test_whether_an_id_is_a_repeat_needs_two_windows(windows: int, same: bool) -> None:
    ones = [made(n, id=id_, arrived_ms=NOW_MS + at) for n, (id_, at) in enumerate([("a", 0), ("a", 900), ("b", 1_600)])]
    whole, again = (Analyzer(lambda before, _: len(before), WINDOW_MS) for _ in range(2))
    points = [whole.score(one) for one in ones]
    assert points == [0, None, 0], "the repeat is no part of the history"
    began_ms = NOW_MS + 1_500
    found = [again.score(one) for one in ones if one.arrived_ms >= began_ms - windows * WINDOW_MS]
    assert (found[-1] == points[-1]) is same
