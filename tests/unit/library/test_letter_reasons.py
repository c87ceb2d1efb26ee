"""Reasons of dead letters as words that a metric can have."""

from __future__ import annotations

import pyarrow as pa

from effectively_once.epoch.letter_reasons import MOST, OTHER, count_messages, count_records, limit


def test_reasons_are_counted_by_their_first_word() -> None:
    reasons = ["late", "bad_time", "late", "refused_by_table orders: once", "refused_by_table orders: not null b", "“”"]
    assert count_records(pa.chunked_array([reasons[:2], reasons[2:]])) == {
        "late": 2,
        "bad_time": 1,
        "refused_by_table": 2,
        OTHER: 1,
    }
    assert count_records(pa.chunked_array([], pa.string())) == {}
    assert count_messages([(None, b'{"reason": "sum_too_large"}')] * 2) == {"sum_too_large": 2}


def test_texts_of_an_author_do_not_become_a_series_each() -> None:
    """As a reason that begins with the record's number. What is frequent keeps its word."""
    reasons = [*(f"n{number}: wrong" for number in range(1000)), *["late"] * 5]
    counted = count_records(pa.chunked_array([reasons]))
    assert (len(counted), counted["late"], sum(counted.values())) == (MOST + 1, 5, 1005)


def test_words_that_are_known_stay_and_new_ones_have_what_room_is_left() -> None:
    assert limit({"a": 1, "b": 9, "c": 5}, {"a", OTHER}, 2) == {"a": 1, "b": 9, OTHER: 5}
    assert limit({"b": 9}, {"a", "c"}, 2) == {OTHER: 9}
    assert limit({OTHER: 2, "a": 1}, (), 1) == {OTHER: 2, "a": 1}
