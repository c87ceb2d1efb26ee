"""The command of the card ledger: which jobs the demo has, and its runs judged again."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from infra.console import Console
from tests.experiments.card_ledger import demo
from tests.experiments.card_ledger.demo import CardDemo
from tests.experiments.card_ledger.judge import directory_of
from tests.experiments.card_ledger.ways import KEYED, WAYS, Way
from tests.harness.results import Verdict
from tests.harness.run_directory import RunDirectory
from tests.unit.command import call
from tests.unit.experiments.card_ledger import runs


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--job", "cards"], "there is no job 'cards'; there are: user_counts, card_ledger, fraud"),
        (["--job", "card_ledger", "--input", "mine.csv"], "INPUT is for user_counts"),
    ],
)
def test_what_the_demo_does_not_have_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    assert call(monkeypatch, "demo", *words) == 2
    assert says in capsys.readouterr().err


def test_check_judges_a_run_of_the_card_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = runs.recorded(tmp_path)
    assert call(monkeypatch, "check", "--run", str(run)) == 0
    out = capsys.readouterr().out
    assert out.startswith("PASS ")
    assert "restructured" in out
    runs.without(run, KEYED, runs.DOUBLED[0])
    assert call(monkeypatch, "check", "--run", str(run)) == 1
    assert "keyed: 1 transactions were not charged" in capsys.readouterr().out
    directory_of(run, KEYED).history_path.unlink()
    assert call(monkeypatch, "check", "--run", str(run)) == 2
    assert "keyed: history cannot be read" in capsys.readouterr().out


def test_a_way_that_breaks_off_makes_the_run_unknown_and_the_others_are_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished = runs.recorded(tmp_path)
    played: list[str] = []

    class Play:
        def __init__(self, way: Way, own: RunDirectory, *_: object) -> None:
            self.way, self.own = way, own

        def go(self) -> None:
            played.append(self.way.name)
            if self.way == WAYS[1]:
                raise RuntimeError("the broker is gone")
            shutil.copytree(directory_of(finished, self.way).path, self.own.path)

    monkeypatch.setattr(demo, "Play", Play)
    stack: Any = lambda _: nullcontext()  # noqa: E731 - plays are not made with it
    results = CardDemo(tmp_path, "cluster", stack, runs.SEED, Console(), runs.RECORDS, runs.KILLS).run()
    assert results.on == "cluster"
    assert played == [way.name for way in WAYS]
    assert results.verdict is Verdict.UNKNOWN
    assert [one.way for one in results.ways] == ["plain", "restructured"]
    (reason,) = results.reasons
    assert reason.startswith("keyed: history cannot be read")
    (error,) = (tmp_path / "runs" / "cards").glob("2*/ways/keyed/logs/error.txt")
    assert "the broker is gone" in error.read_text()
