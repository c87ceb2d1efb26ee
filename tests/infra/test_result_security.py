"""Each pipeline with tables has a login of its own for PostgreSQL, which shows a certificate of our authority."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from effectively_once.operate.grant_tables import TAKEN
from infra.settings import SettingsError
from tests.charts.render import environment, render, secret_at
from tests.infra.platform import PLAIN, Deployed, deploy_once, settings

TABLES = {"result_store": True}
PIPELINES = {"user_counts": TABLES, "clicks": {"job": "own.clicks", **TABLES}, "plain": {"job": "own.plain"}}


def made(**security: Any) -> Deployed:
    wanted = settings(profile="production", security={**PLAIN, "result_store": True, **security}, pipelines=PIPELINES)
    return deploy_once(wanted)


def pods(one: Deployed, name: str) -> list[Any]:
    """Return the templates of driver and executors."""
    spec = render("streaming-pipeline", one.values(name), name).one("SparkApplication", name)["spec"]
    return [spec[role]["template"] for role in ("driver", "executor")]


def test_both_sides_have_the_same_password_and_every_pipeline_another() -> None:
    one = made()
    users = one.secret("postgres-users-0-0")
    assert set(users) == {"user_counts", "clicks"} == {*one.values("postgres")["security"]["users"]}
    assert len({*users.values()}) == 2
    for user, password in users.items():
        own = one.secret(f"{user.replace('_', '-')}-result-store")
        assert (own["PGUSER"], own["PGPASSWORD"]) == (user, password)
    assert "plain-result-store" not in one.engine.of("Secret")


def test_no_pod_of_a_pipeline_is_given_the_owners_login() -> None:
    """It is copied to where no pipeline runs; without it, to where all pipelines are."""
    for one, inside in ((made(), False), (deploy_once(settings(pipelines=PIPELINES, security=PLAIN)), True)):
        secrets = one.engine.of("Secret")
        owner = one.secret("postgres-credentials")["password"]
        told = {name for name in secrets if owner in one.secret(name).values()}
        namespaces = {secrets[name].inputs["metadata"]["namespace"] for name in told}
        assert ("effectively-once-pipelines" in namespaces) is inside
    one = made()
    for name in ("user-counts", "clicks"):
        rendered = render("streaming-pipeline", one.values(name), name)
        assert "result-store-credentials" not in str(rendered.objects)
        for pod in pods(one, name):
            for variable in ("PGUSER", "PGPASSWORD"):
                found = environment(pod["spec"])[variable]
                assert found == {"secretKeyRef": {"name": f"{name}-result-store", "key": variable}}


def test_every_pod_checks_the_server_by_what_it_mounts() -> None:
    one = made()
    for release in ("user-counts", "clicks"):
        for name, pod in render("streaming-pipeline", one.values(release), release).pods():
            told = environment(pod)
            assert told["PGSSLMODE"] == "verify-full", name
            secret, file = secret_at(pod, told["PGSSLROOTCERT"])
            assert secret == f"{release}-result-store"
            assert file in one.secret(secret)
    assert "PGSSLMODE" not in str(render("streaming-pipeline", one.values("plain"), "plain").objects)


def test_the_certificate_is_for_the_name_that_pipelines_connect_to_and_by_what_they_believe(tmp_path: Path) -> None:
    one = made()
    server = one.secret("postgres-tls-0-0")
    names = ("tls.crt", "ca.crt")
    for name in names:
        (tmp_path / name).write_text(server[name])
    host = one.values("clicks")["settings"]["database"].partition("//")[2].partition(":")[0]
    words = ["openssl", "verify", "-CAfile", "ca.crt", "-purpose", "sslserver", "-verify_hostname"]
    for wanted, answer in ((host, 0), ("postgres.elsewhere.svc", 2)):
        ended = subprocess.run([*words, wanted, "tls.crt"], cwd=tmp_path, capture_output=True, check=False)
        assert ended.returncode == answer, ended
    assert {server["ca.crt"]} == {one.secret(f"{name}-result-store")["ca.crt"] for name in ("clicks", "user-counts")}
    assert one.engine.of("Secret")["postgres-tls-0-0"].ignore_changes == ("data",), "it survives later updates"


def test_broker_and_database_show_certificates_of_one_authority() -> None:
    one = made(kafka=True)
    kept = sorted(name for name in one.engine.of("Secret") if name.startswith("platform-authority"))
    assert kept == ["platform-authority-0", "platform-authority-1"]
    assert one.secret("clicks-kafka")["ca.crt"] == one.secret("clicks-result-store")["ca.crt"]


def test_what_is_renewed_starts_the_server_and_every_pod_anew() -> None:
    rendered, secrets = [], []
    for security in ({}, {"rotation": 1}, {"authority": 1}):
        one = made(**security)
        (server,) = render("postgres", one.values("postgres")).of("StatefulSet")
        told = [each["metadata"]["annotations"]["checksum/database"] for each in pods(one, "clicks")]
        rendered.append((str(server["spec"]["template"]), *told))
        secrets.append(one.values("postgres")["security"]["usersSecret"])
    for each in (*zip(*rendered, strict=True), secrets):
        assert len({*each}) == 3


@pytest.mark.parametrize("name", [*TAKEN, "pg_counts"])
def test_a_pipeline_has_no_name_of_the_servers_own(name: str) -> None:
    """Its role would have a schema that everybody uses; what has no tables has no role."""
    for tables, security in ((True, False), (False, True)):
        settings(pipelines={name: {"job": "own.one", "result_store": tables}}, security={"result_store": security})
    with pytest.raises(SettingsError, match=rf"pipelines\.{name}\.identity: '{name}' is a name of PostgreSQL's"):
        settings(pipelines={name: {"job": "own.one", **TABLES}}, security={"result_store": True})


def test_without_a_server_nothing_is_made() -> None:
    nothing = settings(security={"result_store": True}, result_store={"enabled": False}, pipelines={"user_counts": {}})
    assert not [name for name in deploy_once(nothing).engine.of("Secret") if name.startswith("postgres-")]
