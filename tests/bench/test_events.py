"""Events of S1 are the same every time; a partition that is held is behind as it is said, and all else as in S1."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from tests.bench.held_events import SLOW, HeldEvents, Sent, paced, sent_at
from tests.bench.s1_events import LEAST_BYTES, PARTITIONS, START_MS, WINDOW_MS, Events

EVENTS = Events(20_000, users=500)


def test_two_passes_give_the_same_bytes() -> None:
    assert list(EVENTS.values()) == list(Events(20_000, users=500).values())


def test_records_are_about_85_bytes_and_one_in_twenty_is_a_copy() -> None:
    values = list(EVENTS.values())

    assert 80 <= sum(map(len, values)) / len(values) <= 90
    assert len(set(values)) == 19_000
    assert len({json.loads(value)["id"] for value in values}) == 19_000


def test_an_event_without_payload_has_the_least_size() -> None:
    assert {len(value) for value in EVENTS.values()} == {LEAST_BYTES}
    assert {len(value) for value in Events(100, record_bytes=100).values()} == {100}


def test_without_duplicates_every_id_is_another() -> None:
    assert len({json.loads(value)["id"] for value in Events(20_000, duplicates=0.0).values()}) == 20_000


def test_counts_per_window_and_per_user_are_those_of_the_records() -> None:
    records = [json.loads(value) for value in EVENTS.values()]
    firsts = {record["id"]: record for record in records}.values()
    for copies, of in ((True, records), (False, firsts)):
        keys = [(one["user"], one["event_time_ms"] - one["event_time_ms"] % WINDOW_MS) for one in of]
        assert EVENTS.per_window(copies=copies) == Counter(start for _, start in keys)
        assert EVENTS.per_user(copies=copies) == Counter(keys)
        assert EVENTS.count(copies=copies) == len(keys)


def test_few_users_have_most_of_the_events() -> None:
    _, ranks, _ = Events(20_000, users=10_000).columns()

    busiest = np.sort(np.bincount(ranks))[::-1]
    assert busiest[:100].sum() > 0.4 * 20_000


def test_event_time_is_known_to_have_come_so_far() -> None:
    _, _, times = EVENTS.columns()

    for sent in (1, 100, 5_000, 20_000):
        assert times[:sent].max() >= EVENTS.reached_ms(sent)


NUMBER, SPAN_MS = 4_000, 1_200_000
PLAIN = Events(NUMBER, users=50, duplicates=0.0)


def times(events: Events) -> list[int]:
    return [json.loads(value)["event_time_ms"] for value in events.values()]


def test_the_clock_of_one_partition_stands_still_and_then_has_come_up() -> None:
    held, plain = times(HeldEvents(NUMBER, users=50, hold_ms=600_000)), times(PLAIN)
    for number, (one, other) in enumerate(zip(held, plain, strict=True)):
        stands = number % PARTITIONS == SLOW and number < NUMBER // 2
        assert one == (START_MS if stands else other)


def test_one_partition_is_behind_from_the_beginning_to_the_end() -> None:
    lags, plain = times(HeldEvents(NUMBER, users=50, lag_ms=20_000)), times(PLAIN)
    for number, (one, other) in enumerate(zip(lags, plain, strict=True)):
        assert one == (max(START_MS, other - 20_000) if number % PARTITIONS == SLOW else other)


def test_without_a_hold_they_are_those_of_s1() -> None:
    assert list(HeldEvents(NUMBER, users=50).values()) == list(PLAIN.values())


def test_counts_per_window_are_those_of_the_records() -> None:
    events = HeldEvents(NUMBER, users=50, hold_ms=300_000)
    assert events.per_window(copies=False) == Counter(time - time % 60_000 for time in times(events))


def test_copies_are_refused_as_they_would_tell_another_partitions_time() -> None:
    with pytest.raises(ValueError, match="no copies"):
        HeldEvents(NUMBER, duplicates=0.05)


@pytest.mark.parametrize("at_ms", [0, 1, 299, 300, 301, 600_000, SPAN_MS - 1])
def test_from_there_on_no_other_partition_sends_anything_older(at_ms: int) -> None:
    events = HeldEvents(NUMBER, users=50)
    first = events.first_behind(START_MS + at_ms)
    assert all(time >= START_MS + at_ms for time in times(events)[first:])
    # A record later would be right as well; this is the first one that is sure.
    assert first == 0 or START_MS + (first - 1) * SPAN_MS / NUMBER < START_MS + at_ms


def test_it_does_not_go_beyond_what_is_sent() -> None:
    assert HeldEvents(NUMBER).first_behind(START_MS + 2 * SPAN_MS) == NUMBER
    assert HeldEvents(NUMBER).first_behind(START_MS - 1) == 0


class Clock:
    """Seconds; each value that is taken takes some."""

    def __init__(self) -> None:
        self.now, self.slept = 1_000.0, 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept += seconds


@pytest.mark.parametrize(("takes_s", "ends_s"), [(0.0, 1.5), (0.001, 1.55), (0.02, 4.0)])
def test_values_come_at_their_pace_or_as_slowly_as_they_are_taken(takes_s: float, ends_s: float) -> None:
    clock, sent = Clock(), list[Sent]()
    values = [b"%d" % number for number in range(200)]
    found = []
    for value in paced(values, 100, sent, clock, clock.sleep):
        found.append(value)
        clock.now += takes_s
    assert found == values
    assert clock.now - 1_000 == pytest.approx(ends_s)
    assert [one.rows for one in sent] == [0, 50, 100, 150]
    assert sent[-1].t_ms == pytest.approx(1_000 * (1_000 + max(1.5, 150 * takes_s)))


def test_a_number_of_records_was_sent_when_that_was_noted() -> None:
    sent = [Sent(10.0, 0), Sent(20.0, 50), Sent(30.0, 100)]
    assert [sent_at(sent, rows) for rows in (0, 1, 50, 51, 100, 101)] == [10.0, 20.0, 20.0, 30.0, 30.0, None]
