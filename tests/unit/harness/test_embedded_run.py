"""What a campaign on this machine runs and tells of `user_counts`, and of a pipeline that its author defined."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from infra.console import Console
from infra.embedded.job import Job
from infra.embedded.stack import Endpoints
from infra.toolchain.prepare import CHECKOUT, Toolchain
from tests.harness import with_requests, with_table
from tests.harness.adapters.job_home import PROGRAM
from tests.harness.conditions import Conditions
from tests.harness.controls.names import EVERY
from tests.harness.definition.asked import Definition
from tests.harness.definition.packaged import JOB, UNPROVEN_JOB, USER_COUNTS, AnyPipeline, UserCounts
from tests.harness.faults.arsenal import TRANSACTION_TIMEOUT_S
from tests.harness.mixture import parse_faults
from tests.harness.play.embedded_run import EmbeddedRun
from tests.harness.schemas import USER_COUNTS as SCHEMAS
from tests.harness.schemas import WITH_TABLE
from tests.harness.subject import seeded

NONE = cast(Any, None)
SAID = {
    "rows": ["accepted"],
    "tables": [],
    "lake": [],
    "schemas": {},
    "code": {"clicks": "ab" * 16},
    "defaults": {"shards": 3},
}
OWN = Definition(Job({"pipeline": "clicks", "topic": "e", "job": "clicks", "kafka_bootstrap": "unused"}), NONE, SAID)
ENDPOINTS = Endpoints("broker:1", "http://store:2", "key", s3_secret_key="none", s3_bucket="bucket")
SUBJECT = seeded(3, 9_000)


def run(pipeline: AnyPipeline, faults: str = "driver-kill*2,zombie", **more: Any) -> EmbeddedRun:
    return EmbeddedRun(
        CHECKOUT, cast(Toolchain, None), parse_faults(faults, 3), 3, SUBJECT, Console(), pipeline, **more
    )


def settings_of(pipeline: AnyPipeline, database: str | None) -> dict[str, Any]:
    stack: Any = SimpleNamespace(endpoints=ENDPOINTS, kafka=SimpleNamespace(link_port=9))
    cuts: Any = SimpleNamespace(between=lambda _broker, _port, store, results: ("link:3", store, results))
    link: Any = SimpleNamespace(endpoint="http://link:4")
    server: Any = database and SimpleNamespace(url=database)
    return run(pipeline)._settings(stack, cuts, link, server).model_dump()


@pytest.mark.parametrize(
    ("pipeline", "module", "beside"),
    [
        (USER_COUNTS, JOB, None),
        (UserCounts(has_tables=True), with_table.JOB, CHECKOUT),
        (UserCounts(unproven=True), UNPROVEN_JOB, CHECKOUT),
        (OWN, PROGRAM, None),
    ],
)
def test_drivers_run_what_the_pipeline_is_or_what_takes_requests(
    pipeline: AnyPipeline, module: str, beside: Path | None
) -> None:
    drivers = run(pipeline)._drivers(NONE, cast(Any, SimpleNamespace(path=NONE)), NONE, asked=False)
    assert (drivers.module, drivers.checkout) == (module, beside)
    asked = run(pipeline)._drivers(NONE, cast(Any, SimpleNamespace(path=NONE)), NONE, asked=True)
    assert (asked.module, asked.checkout) == (with_requests.MODULE, CHECKOUT)


def test_a_pipeline_reaches_its_servers_by_links_and_keeps_its_own_settings() -> None:
    theirs = settings_of(UserCounts(has_tables=True), "postgresql://results")
    assert (theirs["job"], theirs["pipeline"], theirs["shards"]) == (with_table.JOB, "user_counts", 2)
    own = settings_of(OWN, None)
    assert (own["job"], own["pipeline"], own["shards"], own["database"]) == ("clicks", "clicks", 3, None)
    for one in (theirs, own):
        assert (one["kafka_bootstrap"], one["s3_endpoint"], one["s3_bucket"]) == ("link:3", "http://link:4", "bucket")
        assert one["transaction_timeout_s"] == TRANSACTION_TIMEOUT_S
        assert one["epoch_rows_max"] == SUBJECT.epoch_rows_max


@pytest.mark.parametrize("tabled", [True, False])
def test_a_manifest_tells_what_is_struck_and_with_which_controls(tabled: bool) -> None:
    told = run(UserCounts(has_tables=tabled), conditions=Conditions(network_s=5.0))._manifest("r")
    assert told["schemas"].keys() == (WITH_TABLE if tabled else SCHEMAS).keys()
    assert [one["name"] for one in told["controls"]] == [one.name for one in EVERY]
    said = {name: told["settings"][name] for name in ("campaign", "faults", "network_s")}
    assert said == {"campaign": "embedded", "faults": "driver-kill,driver-kill,zombie", "network_s": "5"}
    assert run(UserCounts(controls=()))._manifest("r")["controls"] == []


def test_only_drivers_without_proof_run_code_of_the_harness() -> None:
    assert "tests" in run(UserCounts(unproven=True))._manifest("r")["code"]
    assert "tests" not in run(USER_COUNTS)._manifest("r")["code"]


def test_the_negative_controls_are_of_user_counts_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[Any] = []
    monkeypatch.setattr(
        "tests.harness.play.embedded_run.play_controls", lambda *_, controls, **__: played.append(controls)
    )
    for pipeline in (USER_COUNTS, UserCounts(controls=()), OWN):
        run(pipeline)._controls(NONE, NONE)
    assert played == [EVERY]
