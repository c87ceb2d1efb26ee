"""What the page says that a negative control showed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.report.controls import controls

EXACT = {"accepted": {"expected": 900, "missing": 0, "duplicated": 0, "phantom": 0, "corrupted": 0}}
RETRACTED = {"name": "monotone", "verdict": "fail", "says": "7 records were retracted"}


def showed(**recorded: Any) -> str:
    planned = {"controls": [{"name": "bloom_alone", "must": "fail"}]}
    (found,) = controls({}, planned, {"bloom_alone": {"outputs": EXACT, **recorded}})
    return found.showed


def test_loss_without_a_kill_is_told_without_kills() -> None:
    lost = {"accepted": {**EXACT["accepted"], "missing": 130}}
    assert showed(outputs=lost) == "accepted: 130 missing (of 900 expected)."


@pytest.mark.parametrize(("hits", "told"), [([False], "0 kills hit"), ([True, False], "1 kill hit")])
def test_kills_are_counted_where_there_were_any(hits: list[bool], told: str) -> None:
    assert showed(faults=[{"hit": hit} for hit in hits]).endswith(f"; {told}.")


def test_what_only_an_uncommitted_reader_saw_is_told() -> None:
    says = showed(oracles=[RETRACTED], faults=[{"hit": True}])
    assert says == "accepted: nothing wrong (of 900 expected); 7 records were retracted; 1 kill hit."


def test_an_oracle_that_found_nothing_is_not_quoted() -> None:
    assert "retracted" not in showed(oracles=[{**RETRACTED, "verdict": "pass"}])
