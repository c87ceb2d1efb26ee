"""`make check` judges a run of whatever kind its manifest names, and `make evidence` takes several."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import orjson
import pytest

from effectively_once_jobs.system_usage.settings import EXACTLY_ONCE
from infra.cluster.access import CHECKOUT
from tests.experiments.compare import fabricate as compared
from tests.experiments.kinds import EXPERIMENTS, KINDS, judge_of, kind_of
from tests.experiments.run_folder import MANIFEST
from tests.experiments.test_results import MADE
from tests.harness.results import OWN_PIPELINE
from tests.unit.command import call

EVIDENCE = CHECKOUT / "docs" / "evidence"
KEPT = {
    "bench": set[str](),
    "card-ledger": {"card_ledger"},
    "compare": {"compare"},
    "drill": {"drill"},
    "fraud": {"fraud"},
    "reconcile": {"reconcile"},
    "optimisations": {"optimisations"},
    "tampered": set[str](),
    "two-ways": {"two_ways"},
}
"""Kinds of the runs that are kept, by folder; what is not here holds runs of user_counts."""


BROKEN = object()


def checked(monkeypatch: pytest.MonkeyPatch, run: Path, *more: str) -> int:
    return call(monkeypatch, "check", "--run", str(run), *more)


def test_a_comparison_is_judged_with_all_three_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert checked(monkeypatch, compared.fabricate_run(tmp_path / "right")) == 0
    assert "PASS, seed 7" in capsys.readouterr().out
    doubled = compared.fabricate_run(
        tmp_path / "wrong", lambda semantics, rows: [*rows, rows[0]] if semantics == EXACTLY_ONCE else rows
    )
    assert checked(monkeypatch, doubled) == 1
    assert "✗ exactly once counts no event twice" in capsys.readouterr().out
    assert checked(monkeypatch, compared.fabricate_run(tmp_path / "missed", kills_hit=0)) == 2


@pytest.mark.parametrize("kind", EXPERIMENTS)
def test_a_run_of_each_experiment_has_its_own_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    run = MADE[kind](tmp_path / "run")
    assert kind_of(run) == kind
    assert checked(monkeypatch, run) == 0
    assert "PASS, seed 7" in capsys.readouterr().out
    # Nothing but the manifest tells: with another kind in it another judge reads the same files.
    manifest = orjson.loads((run / MANIFEST).read_bytes())
    other = EXPERIMENTS[EXPERIMENTS.index(kind) - 1]
    (run / MANIFEST).write_bytes(orjson.dumps({**manifest, "kind": other}))
    assert checked(monkeypatch, run) == 2
    assert f"this is no run of {other}" in capsys.readouterr().err


def test_a_kind_that_there_is_not_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = compared.fabricate_run(tmp_path / "run")
    (run / MANIFEST).write_bytes(orjson.dumps({**orjson.loads((run / MANIFEST).read_bytes()), "kind": "comparison"}))
    assert checked(monkeypatch, run) == 2
    assert "kind 'comparison', which nobody judges; there are: user_counts" in capsys.readouterr().err
    assert not (run / "results.json").exists()


@pytest.mark.parametrize(
    ("manifest", "kind"),
    [
        ({"kind": "fraud", "command": "make compare SEED=7"}, "fraud"),
        ({"command": "make compare SEED=7 RATE=0.02"}, "compare"),
        ({"command": "make two-ways SEED=7"}, "two_ways"),
        ({"command": 'make reconcile SEED=7 ARGS="--kills 1"'}, "reconcile"),
        ({"command": "make demo JOB=fraud SEED=7"}, "fraud"),
        ({"command": "make acceptance SUITE=jobs JOB=fraud SEED=7"}, "fraud"),
        ({"command": "make acceptance SUITE=jobs JOB=optimisations SEED=7"}, "optimisations"),
        ({"command": "make acceptance SUITE=jobs JOB=reconcile SEED=7"}, "reconcile"),
        ({"command": "make acceptance SUITE=jobs JOB=system_usage SEED=7"}, "compare"),
        ({"command": "make acceptance SUITE=jobs JOB=two_ways SEED=7"}, "two_ways"),
        ({"settings": {"pipeline": "user_counts"}}, "user_counts"),
        ({"settings": {"pipeline": "clicks", "campaign": OWN_PIPELINE}}, "own_pipeline"),
        ({"seed": 7, "kills": 3, "records": 1_200}, "card_ledger"),
        ({"command": "make acceptance SEED=7"}, "user_counts"),
        ({"command": 7}, "user_counts"),
        ({}, "user_counts"),
        ([], "user_counts"),
        # The judge says that it cannot be read.
        (BROKEN, "user_counts"),
    ],
)
def test_the_kind_is_that_of_the_manifest(tmp_path: Path, manifest: Any, kind: str) -> None:
    assert kind_of(tmp_path) == "user_counts", "without one"
    (tmp_path / MANIFEST).write_bytes(b"{" if manifest is BROKEN else orjson.dumps(manifest))
    assert kind_of(tmp_path) == kind


def test_every_run_that_is_kept_is_of_the_kind_of_its_folder() -> None:
    for manifest in EVIDENCE.rglob(MANIFEST):
        kinds = KEPT.get(manifest.relative_to(EVIDENCE).parts[0], {"user_counts"})
        assert kind_of(manifest.parent) in kinds, manifest
    runs = {folder: {kind_of(one.parent) for one in (EVIDENCE / folder).rglob(MANIFEST)} for folder in KEPT}
    assert runs == KEPT


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_a_judge(kind: str) -> None:
    assert (judge_of(kind) is None) is (kind in ("user_counts", "own_pipeline"))


def test_evidence_takes_runs_in_lines_as_a_shell_lists_them() -> None:
    words = ["make", "-n", "evidence", "RUN=runs/a\nruns/b\n", "AT=docs/evidence/x"]
    told = subprocess.run(words, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout
    assert 'report evidence runs/a runs/b --to "docs/evidence/x"' in told
