"""Records for a trial that no producer could send: refused by name as soon as they are made."""

from __future__ import annotations

from typing import Any

import pytest

from effectively_once.errors import SettingsError
from effectively_once.testing import KafkaRecord

LONGEST_MS = 253_402_300_799_999


@pytest.mark.parametrize(
    "value",
    ["\ud800", {"n": 2**70}, {1: 2}, {"o": object()}, {"t": "\ud800"}],
    ids=["half a character", "a number beyond 64 bits", "a name that is no text", "an object", "half in a field"],
)
def test_a_value_without_a_form_is_refused_by_name(value: Any) -> None:
    with pytest.raises(SettingsError, match=r"^value has no form that could be sent: .* \(KafkaRecord\)\. Correct it"):
        KafkaRecord(value)


def test_a_key_without_a_form_is_refused_by_name() -> None:
    with pytest.raises(SettingsError, match=r"^key has no form that could be sent: "):
        KafkaRecord(b"", key="\ud800")


@pytest.mark.parametrize("timestamp_ms", [LONGEST_MS + 1, -62_135_596_800_001, 2**62, -(2**62)])
def test_a_time_beyond_the_years_that_python_has_is_refused_by_name(timestamp_ms: int) -> None:
    with pytest.raises(
        SettingsError, match=r"^timestamp_ms is a whole number of ms since 1970, in the years 1 to 9999"
    ):
        KafkaRecord(b"", timestamp_ms=timestamp_ms)


@pytest.mark.parametrize("timestamp_ms", [None, LONGEST_MS, -62_135_596_800_000])
def test_what_can_be_sent_is_taken(timestamp_ms: int | None) -> None:
    made = KafkaRecord({"t": "\0"}, key="é", timestamp_ms=timestamp_ms)
    assert (made.timestamp is None) is (timestamp_ms is None)
