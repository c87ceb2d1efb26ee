"""A payment keeps the rate that was named first, though every call names another one."""

import json
from collections import defaultdict
from decimal import Decimal

import pytest

import enrichment
from effectively_once import Outputs, Trial, trial_session
from records import lines


@pytest.fixture(scope="module")
def published() -> Outputs:
    """All that 1,000 records come to, sent in five epochs, each of which is repeated as after a crash."""
    asked: list[str] = []

    def ask(currency: str) -> Decimal:
        asked.append(currency)
        rate: Decimal = enrichment.RATES[currency]
        return rate + Decimal(len(asked)) / 1_000

    found: Outputs = {}
    trial, sent = Trial(enrichment.pipeline, trial_session()), lines(1000, seed=7)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(enrichment, "ask", ask)
        for first in range(0, 1000, 200):
            outputs = trial.epoch(sent[first : first + 200])
            before = len(asked)
            assert trial.repeat() == outputs
            assert len(asked) == before > 0, "a repeat does not ask"
            for sink, rows in outputs.items():
                found.setdefault(sink, []).extend(rows)
    return found


def test_euros_are_those_of_the_recorded_rate(published: Outputs) -> None:
    amounts = {one["id"]: one["amount"] for one in (json.loads(line, parse_float=Decimal) for line in lines(1000, 7))}
    for row in published["in_euros"]:
        assert Decimal(row["euros"]) == (amounts[row["id"]] * Decimal(row["rate"])).quantize(Decimal("0.01"))
    assert len({row["rate"] for row in published["in_euros"] if row["currency"] == "CHF"}) > 1


def test_an_hour_has_the_euros_that_its_payments_were_published_with(published: Outputs) -> None:
    due: dict[tuple[str, int], Decimal] = defaultdict(Decimal)
    for row in published["in_euros"]:
        due[row["shop"], row["event_time_ms"] // 3_600_000 * 3_600_000] += Decimal(row["euros"])
    assert len(published["per_hour"]) == 5 * 6, "800 records are 6:40"
    for row in published["per_hour"]:
        assert Decimal(row["euros"]) == due[row["shop"], row["window_start_ms"]]


def test_a_currency_that_nobody_knows_is_a_dead_letter_and_not_asked_for(published: Outputs) -> None:
    assert {row["reason"] for row in published["dead_letter"]} == {"unknown_currency", "missing_currency", "late"}
