"""A nested baseline is judged as a whole run; every planned kind of fault has to hit."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.checkers import faults
from tests.harness.judge.verdict import judge
from tests.harness.processes import names
from tests.harness.results import Verdict
from tests.unit.harness.fabricated_files import Row
from tests.unit.harness.tamper import change_json, change_lines

SIGKILL = {"kind": "sigkill", "target": "executor", "count": 1}


@pytest.fixture
def based(run: Path) -> Path:
    """Return a clean run with a clean baseline nested in it."""
    baseline = run / "controls" / "baseline"
    shutil.copytree(run, baseline, ignore=shutil.ignore_patterns("controls"))
    change_json(baseline / "manifest.json", lambda one: one.update(controls=[], run=f"{run.name}/baseline"))
    change_json(run / "manifest.json", lambda one: one["controls"].insert(0, {"name": "baseline", "must": "pass"}))
    return run


def test_a_baseline_that_passes_lets_the_run_pass(based: Path) -> None:
    results = judge(based, write=False)
    assert results.verdict is Verdict.PASS, results.reasons
    assert {one.name: one.verdict for one in results.controls}["baseline"] is Verdict.PASS


BROKEN: dict[str, Callable[[Path], Any]] = {
    "lost a record": lambda path: change_lines(path / "observed" / "accepted.jsonl", lambda rows: rows.pop(3)),
    "has no chain": lambda path: (path / "observed" / "chain.json").unlink(),
    "is missing": shutil.rmtree,
    "is a control": lambda path: change_json(path / "manifest.json", lambda one: one.update(control="baseline")),
    "is of another run": lambda path: change_json(path / "manifest.json", lambda one: one.update(run="other")),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_baseline_that_does_not_pass_makes_the_run_unknown(based: Path, what: str) -> None:
    BROKEN[what](based / "controls" / "baseline")
    results = judge(based, write=False)
    assert results.verdict is Verdict.UNKNOWN, results.reasons
    assert results.oracle("controls").verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("kinds", "verdict"),
    [
        ([SIGKILL], Verdict.PASS),
        ([{**SIGKILL, "target": "driver"}, SIGKILL], Verdict.PASS),
        ([{**SIGKILL, "count": 2}], Verdict.UNKNOWN),
        ([SIGKILL, {**SIGKILL, "kind": "pod_delete_now"}], Verdict.UNKNOWN),
        ([{**SIGKILL, "target": "every executor"}], Verdict.UNKNOWN),
    ],
)
def test_every_planned_kind_has_to_hit(run: Path, kinds: list[Row], verdict: Verdict) -> None:
    planned = sum(kind.get("count", 1) for kind in kinds)
    change_json(run / "manifest.json", lambda manifest: manifest.update(faults=kinds, faults_planned=planned))
    assert judge(run, write=False).oracle("faults").verdict is verdict


def strike(before: str, after: str, at: int, kind: str = "pod_delete_now") -> Row:
    processes = {"process_before": before, "process_after": after}
    where = {"target": "every executor", "epoch": 0, "phase": "dedup_begun"}
    return {"t": at, "event": "fault", "kind": kind, "injected_at": at, "hit": True, **where, **processes}


STEP = {"event": "step", "epoch": 0, "shard": 0, "step": "dedup_begun", "sink": None}
RUNNING: list[Row] = [
    {"t": 1, "event": "epoch", "epoch": 0, "state": "declared", "driver": 1},
    *({"t": t, **STEP, "attempt": attempt} for t, attempt in ((2, 0), (55, 0), (80, 1))),
    {"t": 100, "event": "epoch", "epoch": 0, "state": "published", "driver": 1, "repeat": True, "ms": {"total": 99}},
]


def test_several_struck_at_once_are_one_fault() -> None:
    (checked,) = faults.check([*RUNNING, strike("a@1 + b@2", "c@3 + d@4", 50)])
    assert checked.fault.hit, checked.refuted


@pytest.mark.parametrize("after", ["b@2 + c@3", "", "a@1"])
def test_one_that_survives_refutes_them_all(after: str) -> None:
    (checked,) = faults.check([*RUNNING, strike("a@1 + b@2", after, 50)])
    assert not checked.fault.hit
    assert checked.refuted


@pytest.mark.parametrize("kind", ["sigkill", "pod_delete_now", "pod_delete_graceful"])
def test_nobody_is_struck_down_twice(kind: str) -> None:
    first, second = faults.check([*RUNNING, strike("a@1 + b@2", "c@3 + d@4", 40, kind), strike("b@2", "e@5", 60, kind)])
    assert first.fault.hit
    assert not second.fault.hit


def test_names_of_nobody() -> None:
    assert names(None) == names("") == set()
