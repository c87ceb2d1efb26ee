"""A run claims what it showed, and what a claim needs is asked for whatever the manifest leaves out."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.harness.judge.verdict import judge
from tests.harness.results import Verdict
from tests.unit.harness.judged import PASS, UNKNOWN, expect, expect_run
from tests.unit.harness.tamper import Change, history, manifest, sent


def without_controls(run: Path) -> None:
    manifest(lambda told: told.update(controls=[]))(run)
    shutil.rmtree(run / "controls")


def with_controls_that_need_not_fail(run: Path) -> None:
    """Emptied controls are unknown; the manifest says that they have to be."""
    manifest(lambda told: [one.update(must="unknown") for one in told["controls"]])(run)
    for path in run.glob("controls/*/sent.jsonl"):
        path.unlink()


def without_faults(run: Path) -> None:
    manifest(lambda told: told.update(faults_planned=0, faults=[]))(run)
    history(lambda rows: rows.__setitem__(slice(None), [r for r in rows if r["event"] != "fault"]))(run)


def without_reader(sinks: str) -> Change:
    def leave_out(run: Path) -> None:
        manifest(lambda told: told.update(concurrent_reader=False))(run)
        for path in run.glob(f"observed/{sinks}.concurrent.jsonl"):
            path.unlink()

    return leave_out


def without_late_records(run: Path) -> None:
    """What was late is told to be new: the reference decides all the same."""
    sent(lambda rows: [r.update(kind="fresh") for r in rows if r["kind"] == "late"])(run)
    manifest(lambda told: told["workload"].update(late_sent=0))(run)


LEFT_OUT: dict[str, tuple[Change, str]] = {
    "every control": (without_controls, "needs control spark_kafka_sink"),
    "one control": (manifest(lambda told: told["controls"].pop()), "needs control append_without_mark"),
    "that controls fail": (with_controls_that_need_not_fail, "needs control"),
    "faults": (without_faults, "needs a fault that hit, and 0 did"),
    "a reader": (without_reader("*"), "there is none of accepted"),
    "a reader of one sink": (without_reader("dead_letter"), "there is none of dead_letter"),
    "late records": (without_late_records, "needs late records"),
}


@pytest.mark.parametrize("what", LEFT_OUT)
def test_what_a_manifest_leaves_out_is_asked_for(run: Path, what: str) -> None:
    leave_out, why = LEFT_OUT[what]
    leave_out(run)
    assert expect(run, UNKNOWN, "minimum", why).verdict is not Verdict.PASS


def test_a_part_of_a_campaign_may_leave_its_controls_to_another_and_claims_none(run: Path) -> None:
    without_controls(run)
    manifest(lambda told: told["settings"].update(campaign="embedded"))(run)
    assert expect_run(run, PASS, "minimum").claim.endswith("no control was played.")


def test_the_claim_is_what_was_shown(run: Path) -> None:
    assert judge(run, write=False).claim == (
        "Every event in time is counted exactly once per user and minute, whatever was struck with effect (driver 1, "
        "executor 1). Judged: accepted, dead_letter, user_counts, global_counts; a reader saw none of it change; "
        "2 controls failed as they must."
    )
    without_faults(run)
    manifest(lambda told: told.update(claim="Also when the moon is full."))(run)
    assert "nothing was struck" in judge(run, write=False).claim
