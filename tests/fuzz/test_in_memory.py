"""Any record, in any declaration that holds: nothing stops, nothing is lost, and no two sinks disagree."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import seed as with_seed
from hypothesis import strategies as st

from effectively_once import Pipeline
from tests.depth import examples
from tests.fuzz.declarations import DECLARATIONS
from tests.fuzz.reading import read
from tests.fuzz.records import EPOCHS, Record, Seeded, many, seeded
from tests.fuzz.rows import FIELDS
from tests.fuzz.trial_run import TrialRun
from tests.fuzz.without_spark import plain_trial
from tests.spark import test_json_records as of_spark

SAME = settings(deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
"""The same examples in every run."""
USUAL = {"read", "accepted", "duplicate", "late", "malformed", "duplicate_key", "bad_time", "missing_id", "results"}
SELDOM = {
    "missing_user",
    "missing_n",
    "bad_text",
    "bad_level",
    "bad_day",
    "bad_at",
    "ahead",
    "large_told",
    "long_id",
    "sum_too_large",
    "too_many_distinct",
    "bad_result",
}
"""Outcomes that must have come, or nothing is said about them."""


def fuzzed(number: int, drawn: st.SearchStrategy[list[list[Record]] | Seeded], seed: str | None = None) -> Counter[str]:
    """Run so many declarations on records; return how often each outcome came. Without a seed it is the same ones."""
    outcomes: Counter[str] = Counter()

    @settings(SAME, max_examples=number)
    @given(DECLARATIONS, drawn, st.integers(1, 3))
    def one(pipeline: Pipeline, records: list[list[Record]] | Seeded, shards: int) -> None:
        with plain_trial(pipeline, shards) as trial:
            run = TrialRun(trial, pipeline, shards)
            run.all(records.epochs() if isinstance(records, Seeded) else records)
        outcomes.update(run.outcomes)

    (one if seed is None else with_seed(seed)(one))()
    return +outcomes


def test_no_record_stops_a_trial_and_every_sink_shows_the_same() -> None:
    """Hypothesis draws each record, and makes simpler what fails."""
    fuzzed(examples(20), EPOCHS)


@pytest.mark.deep
def test_no_record_of_thousands_stops_a_trial() -> None:
    assert fuzzed(8, seeded(200)).keys() >= USUAL


@pytest.mark.slow
def test_no_record_of_a_hundred_thousand_stops_a_trial() -> None:
    outcomes = fuzzed(200, seeded(500))
    assert outcomes.keys() >= USUAL | SELDOM
    assert outcomes["read"] >= 100_000


def test_records_are_read_as_spark_reads_them() -> None:
    """By the table that holds for `json_records`, so that what is fuzzed here are the rows that it gives."""
    fields = dict(field.split() for field in of_spark.FIELDS.split(", "))
    found = {text: read(text.encode(), fields) for text in of_spark.READ}
    assert {text: (reason, tuple(row.values())) for text, (reason, row) in found.items()} == of_spark.READ
    broken = [one.encode() if isinstance(one, str) else one for one in of_spark.HALF]
    assert [read(value, fields)[0] for value in broken] == ["malformed"] * len(broken)


def test_what_the_parser_of_spark_does_not_take_is_malformed() -> None:
    """Digits of a number, levels, and characters of a key: in fields that nobody asks for."""

    def reason(value: str) -> str | None:
        return read(f'{{"other":{value}}}'.encode(), FIELDS)[0]

    taken = ["9" * 1_000, "0." + "1" * 998, "[" * 40 + "]" * 40, '{"' + "k" * 50_000 + '":0}']
    beyond = ["9" * 1_001, "0." + "1" * 999, "[" * 1_001 + "]" * 1_001, '{"' + "k" * 50_001 + '":0}']
    assert [reason(value) for value in taken] == [None] * len(taken)
    assert [reason(value) for value in beyond] == ["malformed"] * len(beyond)


def test_an_ordinary_record_is_read_and_most_others_are_not_ordinary() -> None:
    drawn = many(0, 3_000, far=True)
    ordinary = [one for one in drawn if one.ordinary]
    assert 800 < len(ordinary) < 1_200
    assert {read(one.value, FIELDS)[0] for one in ordinary} == {None}
    reasons = Counter(read(one.value, FIELDS)[0] for one in drawn)
    assert reasons.keys() >= {None, "malformed", "duplicate_key", "bad_time", *(f"bad_{name}" for name in FIELDS)} - {
        "bad_event_time_ms"
    }
