"""The manifest is what the judge reads, and what it could not read is refused when it is written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.harness.commit import git_state
from tests.harness.evidence import Manifest, PlannedControl, PlannedFaults
from tests.harness.manifest import manifest_of
from tests.harness.schedule import Strike
from tests.harness.subject import Subject, seeded

SUBJECT = seeded(7, 2_000)
KILL, STALL = Strike("sigkill"), Strike("stall", "driver")


def _made(subject: Subject = SUBJECT, **changed: Any) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "checkout": Path("/"),
        "pipeline": "uc_1",
        "topic": "events_uc_1",
        "shards": 2,
        "strikes": [KILL, STALL, KILL],
    }
    return manifest_of("20261120-170301-7", "Exact.", 7, subject, **{**arguments, **changed})


def test_the_judge_reads_what_was_planned() -> None:
    controls = (PlannedControl(name="spark_kafka_sink", must="fail"),)
    read = Manifest.model_validate(_made(controls=controls))
    assert (read.run, read.claim, read.seed, read.control) == ("20261120-170301-7", "Exact.", 7, None)
    assert (read.faults_planned, read.controls) == (3, controls)
    assert read.faults == (
        PlannedFaults(kind="sigkill", target="executor", count=2),
        PlannedFaults(kind="stall", target="driver", count=1),
    )
    settings, numbers = read.settings, SUBJECT.numbers
    assert (settings.pipeline, settings.topic, settings.shards) == ("uc_1", "events_uc_1", 2)
    assert (settings.window_ms, settings.lateness_ms) == (SUBJECT.window_ms, SUBJECT.lateness_ms)
    assert settings.sinks == ("accepted", "dead_letter", "user_counts", "global_counts")
    assert (read.workload.sent, read.workload.late_sent) == (numbers.sent, numbers.late_sent)
    assert read.concurrent_reader
    assert read.started_at > 0


def test_settings_that_no_verdict_depends_on_are_kept_and_a_run_without_faults_says_so() -> None:
    made = _made(named={"suite": "smoke"}, strikes=())
    assert made["settings"]["suite"] == "smoke"
    assert (made["faults_planned"], made["faults"]) == (0, [])


@pytest.mark.parametrize(
    ("field", "changed"),
    [
        ("shards", {"shards": 0}),
        ("kind", {"subject": replace(SUBJECT, kind="guessed")}),
        ("lateness_ms", {"subject": replace(SUBJECT, lateness_ms=-1)}),
        ("topic", {"topic": None}),
    ],
)
def test_a_wrong_field_is_refused(field: str, changed: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=field):
        _made(**changed)


def test_outside_a_repository_there_is_no_commit(tmp_path: Path) -> None:
    assert git_state(tmp_path / "nowhere") == {}
