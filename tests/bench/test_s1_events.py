"""The events of S1 are the same every time, and what is said of them is true."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np

from tests.bench.s1_events import LEAST_BYTES, WINDOW_MS, Events

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
