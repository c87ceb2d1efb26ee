"""The features of a card are those of its payments by event time, however they arrive; a repeat gives the same."""

import json
from decimal import Decimal
from typing import Any

import pytest

from card_features import pipeline
from effectively_once import Outputs, Trial, trial_session
from records import START_MS, lines

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def published() -> Outputs:
    """All that 1,000 records come to, sent in five epochs, each of which is repeated as after a crash."""
    found: Outputs = {}
    trial, sent = Trial(pipeline, trial_session()), lines(1000, seed=7)
    for first in range(0, 1000, 200):
        outputs = trial.epoch(sent[first : first + 200])
        assert trial.repeat() == outputs
        for sink, rows in outputs.items():
            found.setdefault(sink, []).extend(rows)
    return found


def test_an_hour_of_a_card_has_the_features_of_its_payments(published: Outputs) -> None:
    refused = {row["id"] for row in published["dead_letter"]}
    sent = [json.loads(line, parse_float=Decimal) for line in lines(1000, seed=7)]
    once = {one["id"]: one for one in sent if one["id"] not in refused}
    by_time = sorted(once.values(), key=lambda one: one["event_time_ms"])
    due = {}
    # 800 records are 4:26; an hour closes five minutes after its end.
    for start_ms in range(START_MS, START_MS + 4 * HOUR_MS, HOUR_MS):
        for card in {one["card"] for one in by_time}:
            paid = [one for one in by_time if one["card"] == card and 0 <= one["event_time_ms"] - start_ms < HOUR_MS]
            if paid:
                merchants = [one["merchant"] for one in paid]
                amounts = [one["amount"] for one in paid]
                countries = (paid[0]["country"], paid[-1]["country"])
                numbers = (len(paid), sum(amounts), max(amounts), len(set(merchants)))
                due[card, start_ms] = (*numbers, *countries, merchants[:5])
    found = {(row["card"], row["window_start_ms"]): features(row) for row in published["features"]}
    assert found == due


def features(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return the features of a message: amounts are text there, and what is collected is JSON."""
    numbers = (row["payments"], Decimal(row["spent"]), Decimal(row["dearest"]), row["merchants"])
    return (*numbers, row["first_country"], row["last_country"], json.loads(row["first_merchants"]))


def test_a_payment_of_no_merchant_or_an_hour_late_is_a_dead_letter(published: Outputs) -> None:
    assert {row["reason"] for row in published["dead_letter"]} == {"missing_merchant", "bad_merchant", "late"}
