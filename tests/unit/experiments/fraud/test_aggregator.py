"""The aggregator by a clock of the test's: complete when all have answered, partial at the deadline, once each."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from effectively_once_jobs.fraud.aggregator import Aggregator, Score
from effectively_once_jobs.fraud.analyzers import ANALYZERS
from effectively_once_jobs.fraud.decision import Decision
from effectively_once_jobs.fraud.outstanding import Outstanding
from effectively_once_jobs.fraud.transaction import Place, Refusal, Transaction

ALL = tuple(ANALYZERS)
DEADLINE_MS = 14


def made(offset: int, id_: str = "", arrived_ms: int = 0, partition: int = 0) -> Transaction:
    return Transaction((partition, offset), arrived_ms, id_ or f"t{partition}-{offset}", "c", 5, 0, 0, 0)


@pytest.fixture
def aggregator() -> Aggregator:
    return Aggregator(ALL, DEADLINE_MS, early_max=3)


def test_the_last_score_completes_a_decision_at_once(aggregator: Aggregator) -> None:
    assert aggregator.transaction(made(0), 1) is None
    assert [aggregator.score(Score((0, 0), name, 40), 3) for name in ALL[:2]] == [None, None]
    decision = aggregator.score(Score((0, 0), ALL[2], 40), 5)
    assert decision == Decision(made(0), 5, dict.fromkeys(ALL, 40))
    assert (decision.missing, decision.outcome) == ([], "declined")
    assert aggregator.due(10**6) == []
    assert aggregator.next_ms() is None


def test_at_the_deadline_it_decides_with_what_it_has_and_names_what_is_missing(aggregator: Aggregator) -> None:
    aggregator.transaction(made(0), 1)
    aggregator.score(Score((0, 0), "count", 60), 3)
    assert aggregator.next_ms() == DEADLINE_MS
    assert aggregator.due(DEADLINE_MS - 0.5) == []
    (decision,) = aggregator.due(DEADLINE_MS)
    assert (decision.missing, decision.outcome, decision.points) == (["average", "proximity"], "review", {"count": 60})
    assert aggregator.score(Score((0, 0), "average", 100), 15) is None
    assert aggregator.late == 1, "a late score changes nothing"


def test_one_that_is_read_after_its_deadline_is_due_at_once_and_nobody_has_answered(aggregator: Aggregator) -> None:
    aggregator.transaction(made(0, arrived_ms=-10_000), 0)
    (decision,) = aggregator.due(0)
    assert (decision.missing, decision.outcome) == (list(ALL), "review")


def test_scores_may_come_before_their_transaction_and_only_so_many_are_kept(aggregator: Aggregator) -> None:
    for name in ALL:
        aggregator.score(Score((0, 0), name, 10), 0)
    decision = aggregator.transaction(made(0), 1)
    assert isinstance(decision, Decision)
    assert decision.outcome == "approved"
    for offset in range(1, 6):
        aggregator.score(Score((0, offset), "count", 10), 1)
    assert aggregator.dropped == 2
    aggregator.transaction(made(1), 1)
    aggregator.transaction(made(5), 1)
    assert [one.points for one in aggregator.due(DEADLINE_MS)] == [{}, {"count": 10}]


def test_an_id_in_flight_is_a_duplicate_until_it_is_stored_and_its_replay_is_none(aggregator: Aggregator) -> None:
    aggregator.transaction(made(0, "a"), 0)
    assert aggregator.transaction(made(4, "a"), 0) == Refusal((0, 4), 0, "a", "duplicate")
    assert [one.transaction.place for one in aggregator.due(DEADLINE_MS)] == [(0, 0)]
    assert isinstance(aggregator.transaction(made(5, "a"), 20), Refusal), "decided and not stored is in flight"
    aggregator.forget_stored("a")
    assert len(aggregator) == 0
    assert aggregator.transaction(made(6, "a"), 20) is None, "from here on the store knows it"


def test_what_nobody_waits_for_is_nothing(aggregator: Aggregator) -> None:
    aggregator.transaction(made(0), 0)
    assert aggregator.score(Score((0, 0), "astrology", 99), 0) is None
    aggregator.note_refused((0, 1))
    aggregator.score(Score((0, 1), "count", 9), 0)
    assert aggregator.late == 1
    (decision,) = aggregator.due(DEADLINE_MS)
    assert decision.points == {}


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("transaction"), st.integers(0, 1)),
        st.tuples(st.just("score"), st.integers(0, 1), st.integers(0, 12), st.sampled_from(ALL), st.integers(0, 100)),
        st.tuples(st.just("time"), st.integers(1, 20)),
    ),
    max_size=80,
)


@given(STEPS)
def test_whatever_comes_in_whatever_order_each_is_decided_once_by_its_deadline(steps: list[tuple[Any, ...]]) -> None:
    aggregator = Aggregator(ALL, DEADLINE_MS, early_max=10**6)
    now, decided, told = 0, dict[Place, Decision](), dict[tuple[Place, str], tuple[int, int]]()
    arrived: dict[Place, int] = {}
    ends = [0, 0]

    def take(found: Decision | Refusal | None) -> None:
        if found is not None:
            assert isinstance(found, Decision)
            assert found.transaction.place not in decided
            decided[found.transaction.place] = found

    for kind, *rest in [*steps, ("time", DEADLINE_MS)]:
        if kind == "transaction":
            place = (rest[0], ends[rest[0]])
            ends[rest[0]] += 1
            arrived[place] = now
            take(aggregator.transaction(made(place[1], arrived_ms=now, partition=place[0]), now))
        elif kind == "score":
            partition, offset, name, points = rest
            told.setdefault(((partition, offset), name), (now, points))
            take(aggregator.score(Score((partition, offset), name, told[(partition, offset), name][1]), now))
        else:
            for _ in range(rest[0]):
                now += 1
                for one in aggregator.due(now):
                    take(one)
    assert set(decided) == set(arrived)
    for place, decision in decided.items():
        by = decision.decided_ms
        assert arrived[place] <= by <= arrived[place] + DEADLINE_MS
        assert not decision.missing or by == arrived[place] + DEADLINE_MS, "partial at the deadline only"
        in_time = {name: points for (at, name), (t, points) in told.items() if at == place and t < by}
        assert decision.points.items() >= in_time.items()


@given(st.lists(st.tuples(st.integers(0, 1), st.booleans()), max_size=40), st.randoms())
def test_offsets_never_pass_what_is_not_stored(reads: list[tuple[int, bool]], rng: Any) -> None:
    outstanding, ends, left = Outstanding(), [0, 0], set[Place]()
    for partition, store in reads:
        place = (partition, ends[partition])
        ends[partition] += 1
        outstanding.note_read(place)
        left.add(place)
        if store:
            done = rng.choice(sorted(left))
            left.discard(done)
            outstanding.note_stored(done)
        assert len(outstanding) == len(left)
        for number, offset in outstanding.offsets().items():
            assert offset == min((one for at, one in left if at == number), default=ends[number])
