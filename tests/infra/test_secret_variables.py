"""What was set with `--secret` reaches a pipeline's pods through a Secret, and nothing else tells it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pulumi
import pytest
import yaml
from pulumi.runtime.config import set_all_config

from infra import assembly
from infra.settings import Settings, SettingsError, read
from tests.infra.platform import IMAGES, Deployed, crds, deploy, with_crds

TOKEN = "hush-hush-4711"
PIPELINES = {"clicks": {"job": "own.clicks", "environment": {"GEO_URL": "http://geo:80", "GEO_TOKEN": TOKEN}}}
SEALED = {"clicks": {"job": "own.clicks", "environment": {"GEO_URL": "http://geo:80", "GEO_TOKEN": {"secure": "v1:a"}}}}


@pytest.fixture(autouse=True)
def _stack() -> Iterator[None]:
    with mock.patch.object(pulumi, "get_stack", lambda: "test"):
        yield
    set_all_config({}, [])


def settings(folder: Path, config: dict[str, Any], file: dict[str, Any] | None, secret: list[str]) -> Settings:
    """Return the settings of a stack whose file says `file`, as Pulumi hands them over: all values decrypted."""
    images = folder / "images.json"
    images.write_text(json.dumps(IMAGES))
    if file is not None:
        named = {f"effectively-once:{key}": value for key, value in file.items()}
        (folder / "Pulumi.test.yaml").write_text(yaml.safe_dump({"encryptionsalt": "v1:x", "config": named}))
    texts = {f"effectively-once:{key}": one if isinstance(one, str) else json.dumps(one) for key, one in config.items()}
    set_all_config(texts, [f"effectively-once:{key}" for key in secret])
    return read({"EFFECTIVELY_ONCE_IMAGES": str(images)}, folder)


def deployed(folder: Path, sealed: str = "v1:a") -> Deployed:
    file = {"pipelines": json.loads(json.dumps(SEALED).replace("v1:a", sealed))}
    return deploy(settings(folder, {"pipelines": PIPELINES}, file, ["pipelines"]), crds(folder))


def test_a_secret_variable_is_in_a_secret_and_a_plain_one_stays_plain(tmp_path: Path) -> None:
    engine = deployed(tmp_path).engine
    chart = engine.of("Chart")["clicks"]
    assert chart.inputs["values"]["environment"] == {"GEO_URL": "http://geo:80"}
    told = chart.inputs["values"]["secretEnvironment"]
    assert (told["secret"], told["variables"]) == ("clicks-environment", ["GEO_TOKEN"])
    secret = engine.of("Secret")["clicks-environment"]
    assert secret.inputs["metadata"]["name"] == told["secret"]
    assert secret.inputs["metadata"]["namespace"] == "effectively-once-pipelines"
    assert base64.b64decode(secret.inputs["data"]["GEO_TOKEN"]).decode() == TOKEN
    assert "data" in secret.secret
    assert "clicks-environment" in engine.below(chart)


def test_no_secret_value_leaves_the_secret(tmp_path: Path) -> None:
    found = deployed(tmp_path)
    forms = (TOKEN, base64.b64encode(TOKEN.encode()).decode())
    given = json.dumps([one.inputs for one in found.engine.registered if not one.kind.endswith(":Secret")])
    told = json.dumps(found.platform)
    assert not [form for form in forms if form in given or form in told]
    assert TOKEN not in repr(settings(tmp_path, {"pipelines": PIPELINES}, {"pipelines": SEALED}, ["pipelines"]))


def test_a_value_that_is_set_again_starts_the_driver_anew(tmp_path: Path) -> None:
    def version(sealed: str) -> str:
        values = deployed(tmp_path, sealed).values("clicks")
        return str(values["secretEnvironment"]["version"])

    assert version("v1:a") == version("v1:a") != version("v1:b")


def test_pipelines_as_a_list_have_secret_variables_too(tmp_path: Path) -> None:
    listed, sealed = ([{"name": "clicks", **one["clicks"]}] for one in (PIPELINES, SEALED))
    wanted = settings(tmp_path, {"pipelines": listed}, {"pipelines": sealed}, ["pipelines"])
    assert wanted.pipelines["clicks"].secret_environment["GEO_TOKEN"].value.get_secret_value() == TOKEN


def test_without_secrets_nobody_asks_for_the_file(tmp_path: Path) -> None:
    wanted = settings(tmp_path, {"pipelines": PIPELINES}, None, [])
    assert wanted.pipelines["clicks"].environment["GEO_TOKEN"] == TOKEN
    engine = deploy(wanted, crds(tmp_path)).engine
    assert "secretEnvironment" not in engine.of("Chart")["clicks"].inputs["values"]
    assert "clicks-environment" not in engine.of("Secret")


SECURE = {"secure": "v1:a"}
REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"kafka": {"external": TOKEN}}, {"kafka": {"external": SECURE}}, "kafka.external: it was set with --secret"),
    ({"profile": TOKEN}, {"profile": SECURE}, "profile: it was set with --secret"),
    (
        {"pipelines": {"a": {"spark_conf": {"x.y": TOKEN}}}},
        {"pipelines": {"a": {"spark_conf": {"x.y": SECURE}}}},
        "pipelines.a.spark_conf.x.y: it was set with --secret",
    ),
    # The whole environment in one value: which variables it has shows only in what is secret.
    (
        {"pipelines": {"a": {"environment": json.dumps({"A": TOKEN})}}},
        {"pipelines": {"a": {"environment": SECURE}}},
        "pipelines.a.environment: it was set with --secret",
    ),
    (
        {"pipelines": {"a": {"environment": {"A": {"b": TOKEN}}}}},
        {"pipelines": {"a": {"environment": {"A": SECURE}}}},
        "pipelines.a.environment.A: it was set with --secret and is no text",
    ),
    ({"pipelines": PIPELINES}, {"pipelines": PIPELINES}, "pipelines: something below it is secret, and "),
    (
        {
            "pipelines": {
                "a": {"secret_environment": {"A": {"value": TOKEN, "sealed": "x"}}, "environment": {"B": TOKEN}}
            }
        },
        {"pipelines": {"a": {"environment": {"B": SECURE}}}},
        "pipelines.a.secret_environment: set the values below pipelines.a.environment, with --secret",
    ),
]


@pytest.mark.parametrize(("config", "file", "expected"), REFUSED, ids=[line.split(":")[0] for *_, line in REFUSED])
def test_a_secret_anywhere_else_is_refused_by_name_and_not_told(
    config: dict[str, Any], file: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError) as refused:
        settings(tmp_path, config, file, list(config))
    (line,) = refused.value.lines
    assert line.startswith(expected)
    assert TOKEN not in line


def test_a_stack_file_that_is_elsewhere_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"pipelines: .*Pulumi\.test\.yaml does not tell what"):
        settings(tmp_path, {"pipelines": PIPELINES}, None, ["pipelines"])


@pytest.mark.parametrize("name", ["AWS_SECRET_ACCESS_KEY", "no-name"])
def test_a_name_that_no_variable_may_have_is_refused_without_its_value(name: str, tmp_path: Path) -> None:
    config = {"pipelines": {"a": {"job": "own.a", "environment": {name: TOKEN}}}}
    file = {"pipelines": {"a": {"job": "own.a", "environment": {name: SECURE}}}}
    wanted = settings(tmp_path, config, file, ["pipelines"])
    with pytest.raises(SettingsError, match=name) as refused:
        assembly.check(with_crds(wanted, crds(tmp_path)))
    assert TOKEN not in str(refused.value)
