"""PostgreSQL takes no plain connection; a Job gives roles their passwords, and it alone has the owner's login."""

from __future__ import annotations

from pathlib import Path

import pytest

from effectively_once.operate.grant_tables import Grants
from effectively_once.operate.grants_file import read_grants
from infra.values.postgres import PostgresValues, Security
from tests.charts.render import NAMESPACE, Object, Rendered, environment, mounted, render
from tests.charts.samples import IMAGE
from tests.charts.samples import POSTGRES_SECURITY as SECURITY


def postgres(security: Security | None = SECURITY) -> Rendered:
    return render("postgres", PostgresValues(image=IMAGE, credentials_secret="owner", security=security).to_helm())


def job(objects: Rendered) -> Object:
    (found,) = objects.of("Job")
    return found


def server(objects: Rendered) -> Object:
    spec: Object = objects.one("StatefulSet", "postgres")["spec"]["template"]["spec"]
    return spec


def test_the_server_takes_connections_by_tls_and_a_password_alone() -> None:
    """But for its socket, which does not leave the pod."""
    objects = postgres()
    lines = objects.one("ConfigMap", "postgres")["data"]["pg_hba.conf"].split("\n")
    assert [one.split() for one in lines if one] == [
        ["local", "all", "all", "scram-sha-256"],
        ["hostssl", "all", "all", "all", "scram-sha-256"],
    ]
    pod = server(objects)
    args = pod["containers"][0]["args"]
    assert args[::2] == ["-c"] * len(args[::2])
    told = dict(one.split("=", 1) for one in args[1::2])
    assert (told["ssl"], told["track_commit_timestamp"]) == ("on", "on")
    paths = mounted(pod)
    folder, _, file = told["hba_file"].rpartition("/")
    assert paths[folder]["configMap"]["name"] == "postgres"
    assert file in objects.one("ConfigMap", "postgres")["data"]
    for name in ("ssl_cert_file", "ssl_key_file"):
        secret = paths[told[name].rpartition("/")[0]]["secret"]
        # It refuses a key that others may read, and this one is root's: its group has to be the server's.
        assert secret == {"secretName": SECURITY.tls_secret, "defaultMode": 0o440}
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsGroup"]


def test_the_job_reads_what_the_program_takes_and_checks_the_server(tmp_path: Path) -> None:
    objects = postgres()
    (tmp_path / "grants.json").write_text(objects.one("ConfigMap", "postgres-grants")["data"]["grants.json"])
    (tmp_path / "orders").write_text("x")
    grants, _ = read_grants(Grants, tmp_path / "grants.json", tmp_path)
    assert grants.database == f"postgresql://postgres.{NAMESPACE}.svc:5432/results"
    assert grants.users == ("orders",)
    pod = job(objects)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == SECURITY.grant_image
    told, paths = environment(pod), mounted(pod)
    assert told["PGPASSWORD"] == {"secretKeyRef": {"name": "owner", "key": "password"}}
    assert told["PGSSLMODE"] == "verify-full"
    folder, _, file = told["PGSSLROOTCERT"].rpartition("/")
    secret = paths[folder]["secret"]
    assert secret == {"secretName": SECURITY.tls_secret, "items": [{"key": file, "path": file}]}, "not the server's key"
    (passwords,) = (word.partition("=")[2] for word in container["args"] if word.startswith("--passwords="))
    assert paths[passwords]["secret"]["secretName"] == SECURITY.users_secret


@pytest.mark.parametrize("role", ["", "Orders", "or ders", 'or"ders', "orders-2"])
def test_the_chart_takes_roles_that_are_names_of_pipelines(role: str) -> None:
    with pytest.raises(ValueError, match="users"):
        Security(**{**SECURITY.model_dump(), "users": (role,)})


def test_without_it_everything_is_as_it_was() -> None:
    objects = postgres(None)
    assert sorted(objects.names()) == [
        "NetworkPolicy/postgres",
        "PodDisruptionBudget/postgres",
        "Service/postgres",
        "ServiceAccount/postgres",
        "StatefulSet/postgres",
    ]
    assert server(objects)["containers"][0]["args"] == ["-c", "track_commit_timestamp=on"]
    assert "annotations" not in objects.one("StatefulSet", "postgres")["spec"]["template"]["metadata"]
    assert not [text for text in ("ssl", "grant") if text in str(objects.objects)]
