"""An epoch that is divided and those that take its rest hold every record once; else both judges fail."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.checkers.case import Case
from tests.harness.judge.verdict import judge
from tests.harness.results import Verdict
from tests.second_judge.program import ask
from tests.unit.harness.fabricate import fabricate
from tests.unit.harness.tamper import bind, change_json, change_lines, watch

DIVIDED, REST, LAST = 5, 6, 7
Change = Callable[[Path], Any]


@pytest.fixture(scope="module")
def divided(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run of which one epoch was more than a shard takes; not to be changed."""
    return bind(watch(fabricate(tmp_path_factory.mktemp("divided") / "20261126-090000-7", divided=DIVIDED)))


@pytest.fixture
def run(divided: Path, tmp_path: Path) -> Path:
    """Return a copy of it, to be tampered with."""
    return Path(shutil.copytree(divided, tmp_path / divided.name))


def test_a_run_that_was_divided_passes(divided: Path) -> None:
    results = judge(divided, write=False, second=ask)
    assert results.verdict is Verdict.PASS, results.reasons
    parts = Case(divided).reference.numbers[DIVIDED : LAST + 1]
    assert all(part.accepted > 0 for part in parts), "the test is vacuous"


@pytest.fixture(scope="module")
def abandoned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run of which the first rest was abandoned; not to be changed."""
    folder = tmp_path_factory.mktemp("abandoned")
    return bind(watch(fabricate(folder / "20261126-091500-7", divided=DIVIDED, abandoned=True)))


def test_a_rest_that_was_abandoned_is_due_in_the_next_epoch(abandoned: Path) -> None:
    results = judge(abandoned, write=False, second=ask)
    assert results.verdict is Verdict.PASS, results.reasons
    first, none, rest = Case(abandoned).reference.numbers[DIVIDED : LAST + 1]
    assert (first.accepted > 0, none.in_, rest.accepted > 0) == (True, 0, True)


def _epoch(number: int, **fields: Any) -> Change:
    def change(chain: Any) -> None:
        chain["epochs"][number].update(fields)

    return lambda run: change_json(run / "observed" / "chain.json", change)


def _accepted(change: Callable[[list[Any]], Any]) -> Change:
    return lambda run: change_lines(run / "observed" / "accepted.jsonl", change)


def _first(rows: list[Any], epoch: int) -> int:
    return next(at for at, row in enumerate(rows) if row["epoch"] == epoch)


def _stopped_earlier(chain: Any) -> None:
    (stopped,) = chain["epochs"][DIVIDED]["left"].values()
    stopped[1:] = [0, 0]
    chain["epochs"][REST]["after"] = chain["epochs"][DIVIDED]["left"]


def _no_rest(chain: Any) -> None:
    for name in ("repairs", "after", "reads"):
        del chain["epochs"][LAST][name]


OFFENCES: dict[str, Change] = {
    "the rest leaves a row out": _accepted(lambda rows: rows.pop(_first(rows, REST))),
    "the last part leaves a row out": _accepted(lambda rows: rows.pop(_first(rows, LAST))),
    "a row of the rest is told of the epoch before": _accepted(
        lambda rows: rows[_first(rows, REST)].update(epoch=DIVIDED)
    ),
    "the shard is said to have stopped earlier": lambda run: change_json(
        run / "observed" / "chain.json", _stopped_earlier
    ),
    "nobody takes the rest": lambda run: change_json(run / "observed" / "chain.json", _no_rest),
    "the rest closes windows": _epoch(REST, watermark_ms=10**15),
}


@pytest.mark.parametrize("what", OFFENCES)
def test_a_rest_that_does_not_add_up_fails(run: Path, what: str) -> None:
    OFFENCES[what](run)
    results = judge(run, write=False)
    assert results.verdict is Verdict.FAIL, results.reasons
    answer = ask(run)
    assert answer.verdict is Verdict.FAIL, answer.reasons


CHAINS: dict[str, tuple[Change, str]] = {
    "another place": (_epoch(REST, after={"1": ["events", 0, 1]}), f"goes on elsewhere than epoch {DIVIDED} stopped"),
    "other ranges": (_epoch(LAST, reads={}), f"reads other ranges than epoch {REST}"),
    "no rest": (
        lambda run: change_json(run / "observed" / "chain.json", _no_rest),
        f"epoch {REST} leaves rows, and no epoch takes them",
    ),
}


@pytest.mark.parametrize("what", CHAINS)
def test_the_chain_says_what_a_rest_lacks(run: Path, what: str) -> None:
    change, said = CHAINS[what]
    change(run)
    told = judge(run, write=False).oracle("chain")
    assert told.verdict is Verdict.FAIL
    assert any(said in line for line in told.evidence), told.evidence


ABANDONED: dict[str, tuple[dict[str, Any], str]] = {
    "another place": ({"after": {"1": ["events", 0, 1]}}, f"epoch {REST} goes on elsewhere than epoch {DIVIDED}"),
    "leaves otherwise": (
        {"left": {"1": ["events", 0, 1]}},
        f"epoch {REST} was abandoned and leaves other rows than it was to take",
    ),
    "other ranges": ({"reads": {}}, f"epoch {REST} reads other ranges than epoch {DIVIDED}"),
    "not said": ({"abandoned": False}, f"epoch {REST} leaves a rest once more, and is not said to be abandoned"),
}


@pytest.mark.parametrize("what", ABANDONED)
def test_the_chain_says_what_an_abandoned_rest_lacks(abandoned: Path, tmp_path: Path, what: str) -> None:
    run = Path(shutil.copytree(abandoned, tmp_path / abandoned.name))
    fields, said = ABANDONED[what]
    _epoch(REST, **fields)(run)
    told = judge(run, write=False).oracle("chain")
    assert told.verdict is Verdict.FAIL
    assert any(said in line for line in told.evidence), told.evidence


def test_a_rest_that_an_abandoned_epoch_loses_fails(abandoned: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(abandoned, tmp_path / abandoned.name))

    def forgotten(chain: Any) -> None:
        del chain["epochs"][REST]["left"]
        for name in ("repairs", "after", "reads"):
            del chain["epochs"][LAST][name]

    change_json(run / "observed" / "chain.json", forgotten)
    assert judge(run, write=False).verdict is Verdict.FAIL
    assert ask(run).verdict is Verdict.FAIL
