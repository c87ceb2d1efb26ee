"""The command of fraud detection: what the demo has, its runs judged again, and a play that breaks off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest

from infra.console import Console
from infra.embedded.job import RunError
from tests.experiments.fraud.demo import FraudDemo, on_embedded
from tests.experiments.fraud.judge import FraudManifest
from tests.experiments.fraud.results import FraudResults
from tests.harness.results import Verdict
from tests.harness.stack import embedded
from tests.harness.stack.stack import Stack
from tests.unit.command import call
from tests.unit.experiments.fraud import runs
from tests.unit.experiments.fraud.runs import alter


@pytest.mark.parametrize("option", ["--rate", "--store-down-s", "--held-max"])
def test_options_of_fraud_are_for_fraud_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    assert call(monkeypatch, "demo", "--job", "card_ledger", option, "19") == 2
    assert f"{option} is for fraud" in capsys.readouterr().err


def test_check_judges_a_run_of_fraud_detection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = runs.recorded(tmp_path / "fraud").rename(tmp_path / "fraud" / "a-run")
    assert call(monkeypatch, "check", "--run", str(run)) == 0
    assert "PASS, seed 7" in capsys.readouterr().out
    alter(run, "decisions", lambda rows: rows.pop())
    assert call(monkeypatch, "check", "--run", str(run)) == 1
    assert "1 records came to nothing" in capsys.readouterr().out
    manifest = orjson.loads((run / "manifest.json").read_bytes())
    del manifest["phases"]
    (run / "manifest.json").write_bytes(orjson.dumps(manifest))
    assert call(monkeypatch, "check", "--run", str(run)) == 2
    assert "no manifest" in capsys.readouterr().err


def played(tmp_path: Path, stack: Callable[[Path], AbstractContextManager[Any]], on: Any = "embedded") -> FraudResults:
    return FraudDemo(tmp_path, on, stack, 7, Console(), store_down_s=120, held_max=500).run()


@contextmanager
def gone(_: Path) -> Iterator[Stack]:
    """A stack that breaks off."""
    raise RuntimeError("the broker is gone")
    yield


def test_a_play_that_breaks_off_makes_the_run_unknown_and_says_where(tmp_path: Path) -> None:
    results = played(tmp_path, gone)
    assert results.verdict is Verdict.UNKNOWN
    (reason,) = results.reasons
    assert reason.startswith("history cannot be read")
    (error,) = (tmp_path / "runs" / "fraud").glob("2*/logs/error.txt")
    assert "the broker is gone" in error.read_text()


def test_without_postgres_it_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "find_postgres", lambda: None)
    with pytest.raises(RunError, match="fraud detection needs a result store"):
        played(tmp_path, partial(on_embedded, Console()))


@pytest.mark.parametrize(
    ("on", "words"),
    [
        ("embedded", {"demo", "--store-down-s 120", "--held-max 500"}),
        ("cluster", {"acceptance SUITE=jobs JOB=fraud SEED=7"}),
    ],
)
def test_a_run_is_kept_with_the_command_that_makes_it_again(tmp_path: Path, on: Any, words: set[str]) -> None:
    played(tmp_path, gone, on)
    (path,) = (tmp_path / "runs" / "fraud").glob("2*/manifest.json")
    manifest = FraudManifest.model_validate_json(path.read_bytes())
    assert (manifest.on, manifest.held_max) == (on, 500)
    assert all(one in manifest.command for one in words)
