"""A pipeline is given entries of Secrets that a team's own tools make: by reference, and never read by the program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infra import assembly
from infra.components import admission
from infra.settings import SettingsError
from tests.infra.platform import crds, deploy_once, settings, with_crds

GEO = {"secret": "geo.team", "key": "token"}


def clicks(**more: Any) -> dict[str, Any]:
    return {"clicks": {"job": "own.clicks", **more}}


def test_the_chart_is_told_the_names_and_nobody_reads_the_secret() -> None:
    engine = deploy_once(settings(pipelines=clicks(secrets={"GEO_TOKEN": GEO}))).engine
    assert engine.of("Chart")["clicks"].inputs["values"]["secrets"] == {"GEO_TOKEN": GEO}
    assert not [one.name for one in engine.of("Secret").values() if "geo" in one.name]
    others = [one.inputs for one in engine.registered if one.name != "clicks" and "Policy" not in one.kind]
    assert "geo.team" not in json.dumps(others)


def test_a_driver_may_give_its_executors_these_secrets_and_no_other_driver_may() -> None:
    wanted = settings(pipelines={"user_counts": {}, **clicks(secrets={"GEO_TOKEN": GEO, "GEO_USER": GEO})})
    (named,) = (one["expression"] for one in admission.policy(wanted)["variables"] if one["name"] == "secrets")
    assert named.endswith(' + {"clicks": ["geo.team"]}[?variables.pipeline].orValue([])')


@pytest.mark.parametrize(
    ("pipeline", "expected"),
    [
        ({"secrets": {"AWS_SECRET_ACCESS_KEY": GEO}}, "secrets holds 'AWS_SECRET_ACCESS_KEY', which is set already"),
        ({"secrets": {"A": GEO}, "environment": {"A": "x"}}, "secrets holds 'A', and environment too"),
        ({"secrets": {"A": {"secret": "clicks-kafka", "key": "password"}}}, "secrets.A: Secret 'clicks-kafka' is this"),
        ({"secrets": {"A": {"secret": "tills-kafka", "key": "password"}}}, "secrets.A: Secret 'tills-kafka' is this"),
        (
            {"secrets": {"A": {"secret": "object-store-credentials", "key": "AWS_ACCESS_KEY_ID"}}},
            "secrets.A: Secret 'object-store-credentials' is this",
        ),
    ],
)
def test_a_variable_with_another_origin_and_a_secret_of_ours_are_refused(
    pipeline: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    tills = {"security": {"kafka": True}, "kafka": {"users": {"tills": {"writes": ["events"]}}}}
    with pytest.raises(SettingsError) as refused:
        assembly.check(with_crds(settings(pipelines=clicks(**pipeline), **tills), crds(tmp_path)))
    (line,) = refused.value.lines
    assert line.startswith("pipelines.clicks")
    assert expected in line


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        ({"secret": "geo"}, "pipelines.clicks.secrets.A.key: has to be set"),
        ({"secret": "team/geo", "key": "x"}, "pipelines.clicks.secrets.A.secret: String should match"),
        ({"secret": "geo", "key": "a b"}, "pipelines.clicks.secrets.A.key: String should match"),
        ({"secret": "geo", "key": "x", "value": "y"}, "pipelines.clicks.secrets.A.value: no such setting; allowed are"),
    ],
)
def test_an_entry_is_a_name_and_a_key(one: dict[str, str], expected: str) -> None:
    with pytest.raises(SettingsError) as refused:
        settings(pipelines=clicks(secrets={"A": one}))
    (line,) = refused.value.lines
    assert line.startswith(expected)
