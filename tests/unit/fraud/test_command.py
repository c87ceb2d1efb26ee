"""The command of fraud detection: what the demo has, its runs judged again, and a play that breaks off."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from infra import cli
from infra.console import Console
from infra.embedded.job import RunError
from tests.harness.fraud import demo
from tests.harness.fraud.demo import FraudDemo
from tests.harness.results import Verdict
from tests.unit.fraud import runs
from tests.unit.fraud.runs import changed


def command(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["cli", *words])
    return cli.run()


def test_a_rate_is_for_fraud_alone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(monkeypatch, "demo", "--job", "card_ledger", "--rate", "9") == 1
    assert "--rate is for fraud" in capsys.readouterr().err


def test_check_judges_a_run_of_fraud_detection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = runs.recorded(tmp_path / "fraud").rename(tmp_path / "fraud" / "a-run")
    assert command(monkeypatch, "check", "--run", str(run)) == 0
    changed(run, "decisions", lambda rows: rows.pop())
    assert command(monkeypatch, "check", "--run", str(run)) == 1
    assert "1 records came to nothing" in capsys.readouterr().out


def test_a_play_that_breaks_off_makes_the_run_unknown_and_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stack:
        def __init__(self, *_: object) -> None:
            raise RuntimeError("the broker is gone")

    monkeypatch.setattr(demo, "EmbeddedStack", Stack)
    monkeypatch.setattr(demo, "find_postgres", lambda: tmp_path)
    results = FraudDemo(tmp_path, None, 7, Console()).run()  # type: ignore[arg-type]
    assert results.verdict is Verdict.UNKNOWN
    (reason,) = results.reasons
    assert reason.startswith("history cannot be read")
    (error,) = (tmp_path / "runs" / "fraud").glob("2*/logs/error.txt")
    assert "the broker is gone" in error.read_text()


def test_without_postgres_it_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "find_postgres", lambda: None)
    with pytest.raises(RunError, match="decisions need a result store"):
        FraudDemo(tmp_path, None, 7, Console()).run()  # type: ignore[arg-type]
