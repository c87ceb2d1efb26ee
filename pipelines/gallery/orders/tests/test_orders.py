"""Every order counts once, for its shop and day, to the cent."""

import json
from decimal import ROUND_HALF_UP, Decimal

import pytest

from effectively_once import Outputs, Trial, trial_session
from orders import HOUR_MS, pipeline
from records import START_MS, lines

DAY_MS = 24 * HOUR_MS


@pytest.fixture(scope="module")
def published() -> Outputs:
    """All that 1,000 records come to, sent in five epochs."""
    found: Outputs = {}
    trial, sent = Trial(pipeline, trial_session()), lines(1000, seed=7)
    for first in range(0, 1000, 200):
        for sink, rows in trial.epoch(sent[first : first + 200]).items():
            found.setdefault(sink, []).extend(rows)
    return found


def test_a_day_has_the_revenue_of_its_orders_however_often_they_were_sent(published: Outputs) -> None:
    refused = {row["id"] for row in published["dead_letter"]}
    records = [json.loads(line, parse_float=Decimal) for line in lines(1000, seed=7)]
    amounts: dict[tuple[str, int], list[Decimal]] = {}
    for record in {record["id"]: record for record in records if record["id"] not in refused}.values():
        start_ms = record["event_time_ms"] // DAY_MS * DAY_MS
        amounts.setdefault((record["shop"], start_ms), []).append(record["amount"])
    found = {(row["shop"], row["window_start_ms"]): row for row in published["per_day"]}
    # 800 records are 66 hours, and a day closes six hours after its end.
    assert {start_ms for _, start_ms in found} == {START_MS, START_MS + DAY_MS}
    for key, row in found.items():
        count, revenue = len(amounts[key]), sum(amounts[key], Decimal())
        assert (row["orders"], row["revenue"], row["dearest"]) == (count, revenue, max(amounts[key]))
        assert row["mean"] == (revenue / count).quantize(Decimal("0.000001"), ROUND_HALF_UP)


def test_what_is_no_amount_or_comes_a_day_late_is_a_dead_letter(published: Outputs) -> None:
    reasons = {row["reason"] for row in published["dead_letter"]}
    assert reasons == {"bad_amount", "missing_amount", "late"}
    assert not {row["id"] for row in published["dead_letter"]} & {row["id"] for row in published["orders"]}
