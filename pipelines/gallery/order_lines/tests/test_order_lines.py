"""Every line of every order counts once, for its product and hour."""

import json
from collections import Counter

import pytest

from effectively_once import Outputs, Trial, trial_session
from order_lines import pipeline
from records import START_MS, lines

HOUR_MS = pipeline.window_ms


@pytest.fixture(scope="module")
def published() -> Outputs:
    """All that 1,000 records come to, sent in five epochs."""
    found: Outputs = {}
    trial, sent = Trial(pipeline, trial_session()), lines(1000, seed=7)
    for first in range(0, 1000, 200):
        for sink, rows in trial.epoch(sent[first : first + 200]).items():
            found.setdefault(sink, []).extend(rows)
    return found


def test_an_hour_has_each_line_of_its_orders_once_however_often_an_order_was_sent(published: Outputs) -> None:
    refused = {row["id"] for row in published["dead_letter"]}
    counts: Counter[tuple[str, int]] = Counter()
    quantities: Counter[tuple[str, int]] = Counter()
    for order in {order["id"]: order for order in map(json.loads, lines(1000, seed=7))}.values():
        for pos, line in enumerate(order["lines"]):
            if f"{order['id']}#{pos}" not in refused:
                key = (line["product"], order["event_time_ms"] // HOUR_MS * HOUR_MS)
                counts[key] += 1
                quantities[key] += line["quantity"]
    # 800 records are 6:40; an hour closes half an hour after its end.
    hours = {START_MS + number * HOUR_MS for number in range(6)}
    found = {(row["product"], row["window_start_ms"]): (row["lines"], row["quantity"]) for row in published["per_hour"]}
    assert found == {key: (counts[key], quantities[key]) for key in counts if key[1] in hours}


def test_a_line_of_no_quantity_is_refused_and_the_other_lines_of_its_order_are_not(published: Outputs) -> None:
    refused = [row["id"] for row in published["dead_letter"] if row["reason"] == "no_quantity"]
    accepted = {row["id"] for row in published["lines"]}
    assert refused
    assert {id_.replace("#0", "#1") for id_ in refused} <= accepted
    assert not accepted & set(refused)


def test_an_order_without_lines_is_one_dead_letter(published: Outputs) -> None:
    assert {row["reason"] for row in published["dead_letter"]} == {"no_quantity", "missing_lines", "late"}
    empty = [row for row in published["dead_letter"] if row["reason"] == "missing_lines"]
    assert all(json.loads(row["value"])["lines"] == [] for row in empty)
