"""What drivers and executors of a run are started with."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import urllib3

from effectively_once.store import s3_client
from infra.embedded import spark
from infra.embedded.spark import CLASSES, SparkHome
from infra.embedded.stack import Endpoints
from tests.harness.adapters.embedded import ProcessDrivers


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """Environments of the processes that would be."""
    environments: list[dict[str, str]] = []

    def child(name: str, argv: list[Any], log: Path, *, cwd: Path, env: dict[str, str]) -> None:
        environments.append(env)

    monkeypatch.setattr(spark, "Child", child)
    return environments


def _home(folder: Path, *, long_lived: bool, archive: Path | None = None) -> SparkHome:
    wheel = SimpleNamespace(sha256="0", installed=folder)
    toolchain: Any = SimpleNamespace(
        jvm_jar=folder, spark_jars=folder, wheel=wheel, java=folder / "bin" / "java", spark_home=folder
    )
    endpoints = Endpoints("broker:1", "http://store:2", "key", s3_secret_key="b" * 8, s3_bucket="bucket")
    return SparkHome(toolchain, endpoints, folder, archive, long_lived=long_lived)


@pytest.mark.parametrize("long_lived", [False, True])
def test_what_a_killed_process_unpacked_goes_with_the_run(
    started: list[dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, long_lived: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    _home(Path("a run"), long_lived=long_lived).start("driver", "m", [])
    scratch = tmp_path / "a run" / "work" / "tmp"
    assert scratch.is_dir()
    assert started[0]["TMPDIR"] == str(scratch)
    conf = json.loads(started[0]["EFFECTIVELY_ONCE_SPARK_CONF"])
    for role in ("driver", "executor"):
        assert f"-Djava.io.tmpdir={scratch}" in shlex.split(conf[f"spark.{role}.extraJavaOptions"])


def test_a_session_in_the_callers_shell_is_not_shown_to_our_object_store(
    started: list[dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store refuses keys with a token that it has not given."""
    monkeypatch.setenv(s3_client.SESSION_TOKEN, "of the shell")
    _home(tmp_path, long_lived=False).start("driver", "m", [])
    for name, value in started[0].items():  # a child has these beside its parent's
        monkeypatch.setenv(name, value)
    found = s3_client.provider(urllib3.PoolManager()).retrieve()
    assert (found.access_key, found.session_token) == ("key", None)


def test_shared_class_data_is_for_short_lived_jvms(started: list[dict[str, str]], tmp_path: Path) -> None:
    for long_lived in (False, True):
        _home(tmp_path / str(long_lived), long_lived=long_lived, archive=tmp_path / "classes").start("driver", "m", [])
    settings = (json.loads(env["EFFECTIVELY_ONCE_SPARK_CONF"]) for env in started)
    short, lasting = (one["spark.driver.extraJavaOptions"] for one in settings)
    assert f"-XX:SharedArchiveFile={tmp_path / 'classes' / CLASSES}" in short
    assert "SharedArchiveFile" not in lasting


def test_drivers_of_the_epilogue_have_the_cores_of_all_in_one_executor(
    started: list[dict[str, str]], tmp_path: Path
) -> None:
    drivers = ProcessDrivers(_home(tmp_path, long_lived=False), "m", tmp_path / "events")
    drivers.start("driver", tmp_path)
    drivers.gather()
    drivers.start("driver", tmp_path)
    masters = [json.loads(env["EFFECTIVELY_ONCE_SPARK_CONF"])["spark.master"] for env in started]
    assert masters == ["local-cluster[2,1,768]", "local-cluster[1,2,768]"]
