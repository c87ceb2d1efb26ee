"""An epoch that is divided and those that take its rest hold every record once; else both judges fail."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.harness.checkers.case import Case
from tests.unit.harness.fabricate import fabricate
from tests.unit.harness.judged import FAIL, PASS, expect, expect_both
from tests.unit.harness.tamper import Change, bind, document, epoch, first_of, observed, watch

DIVIDED, REST, LAST = 5, 6, 7


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run of which one epoch was more than a shard takes; not to be changed."""
    return bind(watch(fabricate(tmp_path_factory.mktemp("divided") / "20261126-090000-7", divided=DIVIDED)))


def test_a_run_that_was_divided_passes(pristine: Path) -> None:
    expect_both(pristine, PASS)
    parts = Case(pristine).reference.numbers[DIVIDED : LAST + 1]
    assert all(part.accepted > 0 for part in parts), "the test is vacuous"


@pytest.fixture(scope="module")
def abandoned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run of which the first rest was abandoned; not to be changed."""
    folder = tmp_path_factory.mktemp("abandoned")
    return bind(watch(fabricate(folder / "20261126-091500-7", divided=DIVIDED, abandoned=True)))


def test_a_rest_that_was_abandoned_is_due_in_the_next_epoch(abandoned: Path) -> None:
    expect_both(abandoned, PASS)
    first, none, rest = Case(abandoned).reference.numbers[DIVIDED : LAST + 1]
    assert (first.accepted > 0, none.in_, rest.accepted > 0) == (True, 0, True)


def _stop_earlier(chain: Any) -> None:
    (stopped,) = chain["epochs"][DIVIDED]["left"].values()
    stopped[1:] = [0, 0]
    chain["epochs"][REST]["after"] = chain["epochs"][DIVIDED]["left"]


def _no_rest(chain: Any) -> None:
    for name in ("repairs", "after", "reads"):
        del chain["epochs"][LAST][name]


def _forget(chain: Any) -> None:
    del chain["epochs"][REST]["left"]
    _no_rest(chain)


OFFENCES: dict[str, Change] = {
    "the rest leaves a row out": observed("accepted", lambda rows: rows.pop(first_of(rows, REST))),
    "the last part leaves a row out": observed("accepted", lambda rows: rows.pop(first_of(rows, LAST))),
    "a row of the rest is told of the epoch before": observed(
        "accepted", lambda rows: rows[first_of(rows, REST)].update(epoch=DIVIDED)
    ),
    "the shard is said to have stopped earlier": document("chain", _stop_earlier),
    "nobody takes the rest": document("chain", _no_rest),
    "the rest closes windows": epoch(REST, watermark_ms=10**15),
}


@pytest.mark.parametrize("what", OFFENCES)
def test_a_rest_that_does_not_add_up_fails(run: Path, what: str) -> None:
    OFFENCES[what](run)
    expect_both(run, FAIL)


def test_a_rest_that_an_abandoned_epoch_loses_fails(abandoned: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(abandoned, tmp_path / abandoned.name))
    document("chain", _forget)(run)
    expect_both(run, FAIL)


ELSEWHERE = {"1": ["events", 0, 1]}
CHAINS: dict[str, tuple[str, Change, str]] = {
    "another place": ("pristine", epoch(REST, after=ELSEWHERE), f"goes on elsewhere than epoch {DIVIDED} stopped"),
    "other ranges": ("pristine", epoch(LAST, reads={}), f"reads other ranges than epoch {REST}"),
    "no rest": ("pristine", document("chain", _no_rest), f"epoch {REST} leaves rows, and no epoch takes them"),
    "another place, abandoned": (
        "abandoned",
        epoch(REST, after=ELSEWHERE),
        f"epoch {REST} goes on elsewhere than epoch {DIVIDED}",
    ),
    "leaves otherwise": (
        "abandoned",
        epoch(REST, left=ELSEWHERE),
        f"epoch {REST} was abandoned and leaves other rows than it was to take",
    ),
    "other ranges, abandoned": (
        "abandoned",
        epoch(REST, reads={}),
        f"epoch {REST} reads other ranges than epoch {DIVIDED}",
    ),
    "not said to be abandoned": (
        "abandoned",
        epoch(REST, abandoned=False),
        f"epoch {REST} leaves a rest once more, and is not said to be abandoned",
    ),
}


@pytest.mark.parametrize("what", CHAINS)
def test_the_chain_says_what_a_rest_lacks(request: pytest.FixtureRequest, tmp_path: Path, what: str) -> None:
    of, change, said = CHAINS[what]
    source: Path = request.getfixturevalue(of)
    run = Path(shutil.copytree(source, tmp_path / source.name))
    change(run)
    expect(run, FAIL, "chain", said)
