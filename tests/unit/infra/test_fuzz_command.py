"""`make fuzz`: a seed that is said, progress, a bound, and exit codes as elsewhere."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog

from tests.fuzz import run, test_answers, test_refused
from tests.fuzz.chosen import NOTES_VARIABLE, RECORDS_VARIABLE, SEED_VARIABLE, note
from tests.fuzz.result import JSON, TABLE, Result

ROUND = Counter(read=6_000, accepted=4_000, late=2_000)


@pytest.fixture(autouse=True)
def _log_as_before() -> Iterator[None]:
    """Fuzzing leaves warnings out, and tests of these come later in the same process."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Seeds of the rounds, none of which is run."""
    seeds: list[str] = []

    def once(seed: str, folder: Any) -> Counter[str]:
        assert folder.getbasetemp().is_dir()
        seeds.append(seed)
        return ROUND

    monkeypatch.setattr(run, "once", once)
    return seeds


def fuzz(tmp_path: Path, *words: str) -> int:
    return run.main(["--out", str(tmp_path / "fuzz"), "--on", "memory", *words])


def test_rounds_are_run_until_so_many_records_are_through(
    rounds: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fuzz(tmp_path, "--seed", "7", "--records", "15000") == 0
    assert rounds == ["7-0", "7-1", "7-2"]
    said = capsys.readouterr()
    told = said.out + said.err
    assert "make fuzz SEED=7" in told
    assert "round 1: 12,000 of 15,000 records" in told
    assert "18,000 read" in told


def test_a_seed_that_nobody_gave_is_drawn_and_said(
    rounds: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fuzz(tmp_path, "--records", "10000") == 0
    said = capsys.readouterr()
    assert f"make fuzz SEED={rounds[0].partition('-')[0]}`" in said.out + said.err


def test_what_goes_wrong_is_written_down_with_the_command_that_shows_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def once(seed: str, _: Any) -> Counter[str]:
        if seed == "7-1":
            raise AssertionError("sinks differ")
        return ROUND

    monkeypatch.setattr(run, "once", once)
    assert fuzz(tmp_path, "--seed", "7") == 1
    said = capsys.readouterr()
    assert 'make fuzz SEED=7 ARGS="--on memory --round 1"' in said.out + said.err
    assert "sinks differ" in (tmp_path / "fuzz" / "failure.txt").read_text()
    assert fuzz(tmp_path, "--seed", "7", "--round", "1") == 1
    assert fuzz(tmp_path, "--seed", "7", "--round", "0") == 0


def test_a_bound_that_comes_first_says_nothing_of_the_pipeline(
    rounds: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 10_000, 50))
    monkeypatch.setattr(run, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    assert fuzz(tmp_path, "--seed", "7", "--minutes", "2") == 2
    assert 0 < len(rounds) < 4


@pytest.mark.parametrize(("ended", "code"), [(0, 0), (1, 1), (2, 2), (5, 2), (-9, 2)])
def test_the_stack_is_played_by_the_tests_of_spark(
    ended: int, code: int, rounds: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(run, "prepare", lambda _: None)
    for variable in (SEED_VARIABLE, RECORDS_VARIABLE, NOTES_VARIABLE):
        monkeypatch.setenv(variable, "")

    def tool(*words: str) -> Any:
        asked.append(words)
        note("fuzzed", {"read": 20_005, "accepted": 9_000, "malformed": 11_005})
        note("drawn0", {"read": 1_000, "accepted": 1_000})
        return SimpleNamespace(returncode=ended)

    monkeypatch.setattr(run, "run_tool", tool)
    assert run.main(["--out", str(tmp_path), "--on", "stack", "--seed", "7", "--records", "20000"]) == code
    assert not rounds
    assert {*run.SPARK} <= {*asked[0]}
    assert (os.environ[SEED_VARIABLE], os.environ[RECORDS_VARIABLE]) == ("7", "20000")
    assert (tmp_path / JSON).exists() == (code == 0)
    if code == 0:
        stack = {"read": 21_005, "accepted": 10_000, "malformed": 11_005}
        assert Result.read(tmp_path / JSON).outcomes == {"stack": stack}


def test_a_run_that_passed_leaves_its_counts_and_one_that_failed_leaves_none(
    rounds: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "fuzz"
    assert fuzz(tmp_path, "--seed", "7", "--records", "15000") == 0
    result = Result.read(folder / JSON)
    assert result.seed == 7
    assert result.outcomes == {"memory": {"read": 18_000, "accepted": 12_000, "late": 6_000}}
    page = (folder / TABLE).read_text()
    assert page == result.markdown()
    assert "18,000 records in memory went through (`make fuzz SEED=7`, " in page
    assert "| memory | late | 6,000 |" in page
    assert len(rounds) == 3

    def differ(*_: Any) -> Counter[str]:
        raise AssertionError("sinks differ")

    monkeypatch.setattr(run, "once", differ)
    assert fuzz(tmp_path, "--seed", "7") == 1
    assert not (folder / JSON).exists()
    assert not (folder / TABLE).exists()


def test_one_round_that_is_seen_again_is_no_result(rounds: list[str], tmp_path: Path) -> None:
    assert fuzz(tmp_path, "--seed", "7", "--round", "3") == 0
    assert (rounds, (tmp_path / "fuzz" / JSON).exists()) == (["7-3"], False)


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"kind": "fuzz"}', '{"kind": "planted", "seed": 1}'])
def test_another_file_is_no_result(content: str, tmp_path: Path) -> None:
    (tmp_path / JSON).write_text(content)
    with pytest.raises((ValueError, TypeError, AttributeError)):
        Result.read(tmp_path / JSON)


@pytest.mark.parametrize("words", [["--records", "5"], ["--on", "nowhere"], ["--seed", "-1"], ["--minutes", "0"]])
def test_what_cannot_be_meant_is_refused(words: list[str], tmp_path: Path) -> None:
    assert fuzz(tmp_path, *words) == 2


def test_a_round_holds_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The strategies are those of the tests: they run, with a seed of their own."""
    monkeypatch.setattr(run, "ROUND", 1)
    drawn: list[str] = []
    monkeypatch.setattr(run, "seeded", lambda number: drawn.append(str(number)))
    monkeypatch.setattr(run, "fuzzed", lambda examples, _, seed: Counter({f"{examples} {seed}": 1}))
    for module, name in (
        (test_refused, "test_a_declaration_is_refused_by_name_or_takes_records"),
        (test_answers, "test_an_answer_is_refused_by_name_or_every_sink_shows_it"),
    ):
        monkeypatch.setattr(module, name, lambda: None)
    assert run.once("7-0", run.Folder(tmp_path)) == {"1 7-0": 1}
    assert drawn == ["500"]
