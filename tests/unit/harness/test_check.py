"""`make check` judges a run of whatever kind, and `make evidence` takes several."""

from __future__ import annotations

import subprocess
from pathlib import Path

import orjson
import pytest

from effectively_once_jobs.system_usage.settings import EXACTLY_ONCE
from infra.cluster.access import CHECKOUT
from tests.experiments.compare import fabricate as compared
from tests.experiments.judges import JUDGES, judge_of
from tests.experiments.kept import MANIFEST
from tests.experiments.optimisations import fabricate as optimised
from tests.experiments.two_ways import fabricate as both_ways
from tests.unit.command import call


def checked(monkeypatch: pytest.MonkeyPatch, run: Path) -> int:
    return call(monkeypatch, "check", "--run", str(run))


def test_a_comparison_is_judged_with_all_three_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert checked(monkeypatch, compared.made(tmp_path / "right")) == 0
    assert "PASS, seed 7" in capsys.readouterr().out
    doubled = compared.made(
        tmp_path / "wrong", lambda semantics, rows: [*rows, rows[0]] if semantics == EXACTLY_ONCE else rows
    )
    assert checked(monkeypatch, doubled) == 1
    assert "✗ exactly once counts no event twice" in capsys.readouterr().out
    assert checked(monkeypatch, compared.made(tmp_path / "missed", kills_hit=0)) == 2


def test_both_ways_and_optimisations_have_their_own_judges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert checked(monkeypatch, both_ways.made(tmp_path / "ways")) == 0
    assert checked(monkeypatch, optimised.made(tmp_path / "optimised")) == 0
    assert "S1 as a query" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "module"),
    [
        ("make compare SEED=7 RATE=0.02", "tests.experiments.compare.results"),
        ("make two-ways SEED=7", "tests.experiments.two_ways.results"),
        ('make reconcile SEED=7 ARGS="--kills 1"', "tests.experiments.reconcile.results"),
        ("make demo JOB=fraud SEED=7", "tests.harness.fraud.judge"),
        *(
            (f"make acceptance SUITE=jobs JOB={job} SEED=7", JUDGES[job])
            for job in ("fraud", "optimisations", "reconcile", "system_usage", "two_ways")
        ),
    ],
)
def test_the_judge_is_that_of_the_command_in_the_manifest(tmp_path: Path, command: str, module: str) -> None:
    (tmp_path / MANIFEST).write_bytes(orjson.dumps({"command": command}))
    judge = judge_of(tmp_path)
    assert judge is not None
    assert judge.__module__ == module


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"[]",
        b"{}",
        b'{"command": 7}',
        b'{"command": "make acceptance SEED=7"}',
        b'{"command": "make demo JOB=card_ledger"}',
    ],
)
def test_what_names_no_such_command_is_left_to_the_others(tmp_path: Path, manifest: bytes) -> None:
    (tmp_path / MANIFEST).write_bytes(manifest)
    assert judge_of(tmp_path) is None
    assert judge_of(tmp_path / "nowhere") is None


def test_evidence_takes_runs_in_lines_as_a_shell_lists_them() -> None:
    words = ["make", "-n", "evidence", "RUN=runs/a\nruns/b\n", "AT=docs/evidence/x"]
    told = subprocess.run(words, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout
    assert 'report evidence runs/a runs/b --to "docs/evidence/x"' in told
