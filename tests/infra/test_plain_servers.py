"""Servers that take plain connections are not changed by a default: whoever uses them has no login yet."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Final

import pytest

from infra import assembly
from infra.components import kafka, object_store, result_store
from infra.components.shape import require_same
from infra.settings import Settings, SettingsError
from infra.settings.security import SERVERS
from tests.charts.render import render
from tests.infra.platform import PLAIN, crds, deploy_once, settings, with_crds
from tests.infra.there import LAPTOP, There, refusals, stateful_sets

CHARTS: Final[dict[str, tuple[str, Any]]] = {
    "kafka": ("kafka", kafka),
    "object_store": ("minio", object_store),
    "result_store": ("postgres", result_store),
}
BROUGHT: Final[dict[str, Any]] = {
    "kafka": {"external": "b:1"},
    "object_store": {"external": {"endpoint": "https://s3", "credentials_secret": "vault/s3"}},
    "result_store": {"external": {"host": "db", "credentials_secret": "vault/db"}},
}


def there(wanted: Settings) -> There:
    """Return a cluster with the servers of a stack, as their charts make them."""
    sets = {
        name: spec
        for chart, component in CHARTS.values()
        if (values := component.values(wanted)) is not None
        for name, spec in stateful_sets(chart, values).items()
    }
    return There(LAPTOP, sets)


def test_a_plain_stack_has_the_owners_secrets_and_nothing_of_security() -> None:
    pipelines = {"user_counts": {"result_store": True}, "clicks": {"job": "own.clicks"}}
    plain = deploy_once(settings(security=PLAIN, pipelines=pipelines))
    assert set(plain.engine.of("Secret")) == {
        "minio-root",
        "postgres-credentials",
        "object-store-credentials-effectively-once",
        "object-store-credentials-effectively-once-pipelines",
        "result-store-credentials-effectively-once-pipelines",
    }
    assert [name for name in ("kafka", "minio", "postgres") if "security" in plain.values(name)] == []
    pipeline = render("streaming-pipeline", plain.values("clicks"), "clicks")
    conf = pipeline.one("SparkApplication", "clicks")["spec"]["sparkConf"]
    assert conf["spark.eventLog.dir"] == "s3a://effectively-once/spark-events"
    assert not [key for key in conf if "authenticate" in key or "crypto" in key]


def test_plain_servers_are_refused_by_name_with_both_ways_on() -> None:
    lines = refusals(there(settings(security=PLAIN)))
    assert [line.partition(" in namespace")[0] for line in lines] == [
        "security.kafka: kafka",
        "security.object_store: minio",
        "security.result_store: postgres",
    ]
    for line in lines:
        assert "`pulumi config set --path security.level each` keeps what is there" in line
        assert "`pulumi config set --path security.level all` changes it as docs/how-to/secure-a-cluster.md" in line
    assert (Path(__file__).parents[2] / "docs" / "how-to" / "secure-a-cluster.md").is_file()


def test_controllers_apart_are_looked_at_too() -> None:
    three = {"nodes": 3, "controllers": 3, "storage_size": "4Gi"}
    wanted = settings(security=PLAIN, kafka=three)
    cluster = There({}, {"kafka-controller": there(wanted).sets["kafka-controller"]})
    (line,) = refusals(cluster, kafka=three)
    assert line.startswith("security.kafka: kafka-controller in namespace effectively-once takes plain connections")


@pytest.mark.parametrize("level", ["all", "each"])
def test_what_configuration_says_is_done(level: str) -> None:
    for before in ({}, PLAIN):
        require_same(settings(security={"level": level}), there(settings(security=before)).find)


def test_servers_with_certificates_and_an_empty_cluster_are_free() -> None:
    require_same(settings(), there(settings()).find)
    require_same(settings(), There().find)
    require_same(settings(security={"rotation": 1, "authority": 2}), there(settings()).find)


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("said", [True, False])
def test_a_server_that_is_named_is_asked_for_and_others_are_not(server: str, said: bool) -> None:
    """As stacks of before have it: one of them was secured by its own setting, and nothing said of the others."""
    lines = refusals(there(settings(security={**PLAIN, server: said})), security={server: said})
    assert [line.partition(":")[0] for line in lines] == [f"security.{one}" for one in SERVERS if one != server]


@pytest.mark.parametrize("server", SERVERS)
def test_what_somebody_else_runs_is_not_looked_at(server: str) -> None:
    """Also where a server of ours was there before."""
    lines = refusals(there(settings(security=PLAIN)), **{server: BROUGHT[server]})
    assert [line.partition(":")[0] for line in lines] == [f"security.{one}" for one in SERVERS if one != server]


def test_without_openssl_nothing_is_begun_where_a_server_shows_a_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(SettingsError) as refused:
        assembly.check(with_crds(settings(), crds(tmp_path)))
    (line,) = refused.value.lines
    assert line.startswith("security: openssl is not on PATH")
    for config in ({"security": PLAIN}, {"security": {**PLAIN, "spark": True}}, BROUGHT):
        assembly.check(with_crds(settings(**json.loads(json.dumps(config))), crds(tmp_path)))
