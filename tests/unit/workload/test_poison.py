"""What becomes of each poison of a file, and that the file is what the demo needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.subject import SLACK_MS, from_file
from tests.harness.workload.file_input import FileInput, survey
from tests.harness.workload.poison import KEY, POISONS, TIME, lines, main, write
from tests.harness.workload.record import Planned

ACCEPTED, NONE = "accepted", "no record"
OUTCOMES = {
    "a megabyte of undecodable bytes": "not_json",
    "a value that is not UTF-8": "not_json",
    "an id that is not UTF-8": "not_json",
    "a surrogate in UTF-8": "not_json",
    "a lone surrogate, escaped": "not_json",
    "a NUL as it is": "not_json",
    "a NUL, escaped": ACCEPTED,
    "control characters, escaped": ACCEPTED,
    "a backslash, then ud800": ACCEPTED,
    "quotes and braces in an id": ACCEPTED,
    "NaN": "not_json",
    "Infinity": "not_json",
    "minus Infinity": "not_json",
    "1e999": "not_json",
    "a number of 40 digits": ACCEPTED,
    "2 to the power of 63": ACCEPTED,
    "single quotes": "not_json",
    "no object, an array": "not_json",
    "no object, a text": "not_json",
    "no object, null": "not_json",
    "cut off": "not_json",
    "two objects": "not_json",
    "something behind it": "not_json",
    "a comma too many": "not_json",
    "500 arrays in one another": ACCEPTED,
    "2,000 arrays in one another": "not_json",
    "brackets never closed": "not_json",
    "an empty line": NONE,
    "a blank line": NONE,
    "no id": "missing_user",
    "an empty object": "missing_user",
    "id null": "missing_user",
    "id empty": "missing_user",
    "id blank": "missing_user",
    "id 1": ACCEPTED,
    "id '1'": ACCEPTED,
    "id true": ACCEPTED,
    "id 'true'": ACCEPTED,
    "id of 30 digits": ACCEPTED,
    "id is an object": ACCEPTED,
    "id nested 500 deep": "missing_user",
    "id twice": ACCEPTED,
    "id of 2,705 bytes": ACCEPTED,
    "id of a megabyte": ACCEPTED,
    "id of a megabyte of escaped NUL": ACCEPTED,
    "a megabyte of quotes": ACCEPTED,
    "a megabyte of backslashes": ACCEPTED,
    "no time": "bad_time",
    "time null": "bad_time",
    "time in words": "bad_time",
    "time is a truth value": "bad_time",
    "time nested 500 deep": "bad_time",
    "time negative": "bad_time",
    "time negative, a fraction": "bad_time",
    "time negative, as text": "bad_time",
    "time before 1970": "bad_time",
    "time of the year 10000": "bad_time",
    "time beyond 64 bits": "bad_time",
    "time of 20 digits, as text": "bad_time",
    "time of a thousand digits, as text": "bad_time",
    "time in other digits": "bad_time",
    "time 1e300": "bad_time",
    "time 'Infinity'": "bad_time",
    "time 'NaN'": "bad_time",
    "a leap second": "bad_time",
    "time twice": ACCEPTED,
    "time in seconds, a fraction": ACCEPTED,
    "time in seconds, as text": ACCEPTED,
    "time with an exponent": ACCEPTED,
    "time in nanoseconds": ACCEPTED,
    "time in another zone": ACCEPTED,
    "the first millisecond of 1970": ACCEPTED,
    "the year 2262": ACCEPTED,
    "the last millisecond of 9999": ACCEPTED,
}
"""Poison -> the reason of its dead letter, or what else becomes of it."""
GOOD = 1_600


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Planned]:
    """Records of the poisons; those of which there is none are left out."""
    path = tmp_path_factory.mktemp("poison") / "poison.jsonl"
    write(path, lines(GOOD))
    names = {one.line: one.name for one in POISONS}
    assert len(names) == len(POISONS)
    sent = [names.get(line) for line in lines(GOOD) if line.strip()]
    return {name: one for name, one in zip(sent, FileInput(path, KEY, TIME), strict=True) if name is not None}


def test_every_poison_has_the_outcome_that_is_written_down(planned: dict[str, Planned]) -> None:
    reasons = {name: ACCEPTED if record.reason is None else record.reason for name, record in planned.items()}
    assert {one.name for one in POISONS} == set(OUTCOMES)
    assert {name: reasons.get(name, NONE) for name in OUTCOMES} == OUTCOMES


def test_a_key_is_counted_by_its_text(planned: dict[str, Planned]) -> None:
    """As `user_counts` itself reads it; of a number beyond 64 bits that of the nearest double."""
    assert planned["id 1"].user == planned["id '1'"].user == "1"
    assert planned["id true"].user == planned["id 'true'"].user == "true"
    assert planned["id twice"].user == "last"
    assert planned["id of 30 digits"].user == "1.2345678901234568e+29"
    assert planned["a NUL, escaped"].user == "a\0b"


def test_the_row_goes_on_as_it_came(planned: dict[str, Planned]) -> None:
    """No number is rounded, no name that is there twice is lost."""
    rows = {one.name: one.line for one in POISONS}
    assert [name for name, one in planned.items() if (one.payload or "").encode() not in (b"", rows[name])] == []
    broken = [name for name, outcome in OUTCOMES.items() if outcome == "not_json"]
    assert [name for name in broken if not planned[name].value.endswith(b": " + rows[name])] == []


def test_the_file_is_accepted_before_anything_runs_and_its_windows_close(tmp_path: Path) -> None:
    path = tmp_path / "poison.jsonl"
    assert main([str(path)]) == 0
    subject = from_file(path, KEY, TIME)
    refused = sum(outcome not in (ACCEPTED, NONE) for outcome in OUTCOMES.values())
    assert subject.numbers.malformed_sent == refused
    assert subject.numbers.sent == 6_000 + len(OUTCOMES) - 2
    assert SLACK_MS < subject.lateness_ms < 10 * 60_000, "of 40 minutes: most windows close while records are sent"
    assert survey(path, KEY, TIME).last_ms == 253_402_300_799_999
    again = path.read_bytes()
    assert (main([str(path)]), path.read_bytes()) == (0, again)


def test_a_file_is_named_that_can_be_read_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == main(["poison.csv"]) == 1
    assert capsys.readouterr().err == 2 * "name one file to write, ending in .jsonl\n"
