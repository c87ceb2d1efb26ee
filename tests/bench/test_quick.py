"""The quick set asks for what its cases know, and the command line of each case for all that it has."""

from __future__ import annotations

import pytest

from tests.bench.__main__ import CASES, main
from tests.bench.quick import SET


@pytest.mark.parametrize("name", SET)
def test_the_words_of_a_case_of_the_quick_set_have_it_measured_alone(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, asked = SET[name]
    measured: list[object] = []
    monkeypatch.setattr(module, "measure", measured.append)
    assert main([name, *asked.words.split()]) == 0
    assert measured == [asked]
    assert CASES[name] is module


@pytest.mark.parametrize("case", CASES)
def test_help_of_a_case_knows_every_option(
    case: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main([case, "--help"]) == 0
    shown = capsys.readouterr().out
    assert [name for name in CASES[case].Asked.model_fields if f"--{name.replace('_', '-')} " not in shown] == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nope"], "No such command 'nope'"),
        (["race", "--record", "5"], "No such option: --record"),
        (["race", "--rounds", "0"], "Invalid value for '--rounds'"),
        (["dedup", "--arms", "nope"], "--arms: 'nope' is not one of 'catalog', 'dropDuplicatesWithinWatermark'"),
        (["quick", "--only", "catalog"], "--only: 'catalog' is not one of 'semantics'"),
        (["against"], "Missing option '--before'"),
        (["against", "--before", "no-such-commit"], "--before no-such-commit: no commit of this repository"),
        (["held", "--holds", "5"], "name 0 first"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_one_line(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("✗ ")
    assert says in line
