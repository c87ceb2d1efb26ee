"""A run claims what it showed, and what a claim needs is asked for whatever the manifest leaves out."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.judge.verdict import judge
from tests.harness.results import Verdict
from tests.unit.harness.tamper import change_json, change_lines


def without_controls(run: Path) -> None:
    change_json(run / "manifest.json", lambda manifest: manifest.update(controls=[]))
    shutil.rmtree(run / "controls")


def with_one_control_less(run: Path) -> None:
    change_json(run / "manifest.json", lambda manifest: manifest["controls"].pop())


def with_controls_that_need_not_fail(run: Path) -> None:
    """Emptied controls are unknown; the manifest says that they have to be."""
    change_json(run / "manifest.json", lambda manifest: [one.update(must="unknown") for one in manifest["controls"]])
    for path in run.glob("controls/*/sent.jsonl"):
        path.unlink()


def without_faults(run: Path) -> None:
    change_json(run / "manifest.json", lambda manifest: manifest.update(faults_planned=0, faults=[]))
    change_lines(
        run / "history.jsonl", lambda rows: rows.__setitem__(slice(None), [r for r in rows if r["event"] != "fault"])
    )


def without_reader(run: Path) -> None:
    change_json(run / "manifest.json", lambda manifest: manifest.update(concurrent_reader=False))
    for path in run.glob("observed/*.concurrent.jsonl"):
        path.unlink()


def with_a_reader_of_some(run: Path) -> None:
    change_json(run / "manifest.json", lambda manifest: manifest.update(concurrent_reader=False))
    (run / "observed" / "dead_letter.concurrent.jsonl").unlink()


def without_late_records(run: Path) -> None:
    """What was late is told to be new: the reference decides all the same."""
    change_lines(run / "sent.jsonl", lambda rows: [r.update(kind="fresh") for r in rows if r["kind"] == "late"])
    change_json(run / "manifest.json", lambda manifest: manifest["workload"].update(late_sent=0))


@pytest.mark.parametrize(
    ("leaves_out", "why"),
    [
        (without_controls, "needs control spark_kafka_sink"),
        (with_one_control_less, "needs control append_without_mark"),
        (with_controls_that_need_not_fail, "needs control"),
        (without_faults, "needs a fault that hit, and 0 did"),
        (without_reader, "there is none of accepted"),
        (with_a_reader_of_some, "there is none of dead_letter"),
        (without_late_records, "needs late records"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_what_a_manifest_leaves_out_is_asked_for(run: Path, leaves_out: Callable[[Path], Any], why: str) -> None:
    leaves_out(run)
    results = judge(run, write=False)
    assert results.verdict is not Verdict.PASS
    assert results.oracle("minimum").verdict is Verdict.UNKNOWN
    assert any(why in one for one in results.oracle("minimum").evidence), results.oracle("minimum").evidence


def test_a_part_of_a_campaign_may_leave_its_controls_to_another_and_claims_none(run: Path) -> None:
    without_controls(run)
    change_json(run / "manifest.json", lambda manifest: manifest["settings"].update(campaign="embedded"))
    results = judge(run, write=False)
    assert results.verdict is Verdict.PASS, results.reasons
    assert results.claim.endswith("no control was played.")


def test_the_claim_is_what_was_shown(run: Path) -> None:
    assert judge(run, write=False).claim == (
        "Every event in time is counted exactly once per user and minute, whatever was struck with effect (driver 1, "
        "executor 1). Judged: accepted, dead_letter, user_counts, global_counts; a reader saw none of it change; "
        "2 controls failed as they must."
    )
    without_faults(run)
    change_json(run / "manifest.json", lambda manifest: manifest.update(claim="Also when the moon is full."))
    assert "nothing was struck" in judge(run, write=False).claim
