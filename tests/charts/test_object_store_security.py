"""The object store speaks TLS alone; a Job gives its users keys and folders, and the server has the owner's keys."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from effectively_once.operate.grant_objects import Grants
from effectively_once.operate.grants_file import read_grants
from infra.values.minio import Folder, MinioValues, Security
from tests.charts.render import NAMESPACE, Object, Rendered, environment, mounted, render
from tests.charts.samples import IMAGE
from tests.charts.samples import MINIO_SECURITY as SECURITY


def minio(security: Security | None = SECURITY, nodes: Literal[1, 4] = 1) -> Rendered:
    values = MinioValues(image=IMAGE, credentials_secret="root", security=security, nodes=nodes)
    return render("minio", values.to_helm())


def server(objects: Rendered) -> Object:
    found: list[Object] = objects.one("StatefulSet", "minio")["spec"]["template"]["spec"]["containers"]
    (only,) = found
    return only


def job(objects: Rendered) -> Object:
    (found,) = objects.of("Job")
    return found


def test_the_job_reads_what_the_program_takes_with_the_owners_keys(tmp_path: Path) -> None:
    objects = minio()
    (tmp_path / "grants.json").write_text(objects.one("ConfigMap", "minio-grants")["data"]["grants.json"])
    (tmp_path / "orders-0").write_text("x")
    grants, _ = read_grants(Grants, tmp_path / "grants.json", tmp_path)
    assert grants.endpoint == f"https://minio.{NAMESPACE}.svc:9000"
    assert [one.model_dump() for one in grants.policies["orders"]] == [{"bucket": "lake", "folder": "orders/"}]
    assert (grants.users, grants.buckets) == ({"orders-0": "orders"}, ["lake"])
    assert [one.folder for one in grants.folders] == ["spark-events/orders/"]
    pod = job(objects)["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == SECURITY.grant_image
    assert environment(pod)["AWS_SECRET_ACCESS_KEY"] == {"secretKeyRef": {"name": "root", "key": "rootPassword"}}


@pytest.mark.parametrize("folder", ["", "orders", "*/", "orders/*", "../"])
def test_the_chart_takes_whole_folders_that_are_named(folder: str) -> None:
    with pytest.raises(ValueError, match="folder"):
        Folder(bucket="lake", folder=folder)


def test_probes_and_drives_speak_as_the_server_does() -> None:
    for security, scheme in ((SECURITY, "https"), (None, "http")):
        one = server(minio(security, nodes=4))
        assert one["args"][1] == f"{scheme}://minio-{{0...3}}.minio-nodes.{NAMESPACE}.svc:9000/data"
        probes = [one[f"{name}Probe"]["httpGet"]["scheme"] for name in ("startup", "liveness", "readiness")]
        assert probes == [scheme.upper()] * 3


def test_the_job_believes_the_authority_and_is_not_given_the_servers_key() -> None:
    pod = job(minio())["spec"]["template"]["spec"]
    folder, _, file = environment(pod)["AWS_CA_BUNDLE"].rpartition("/")
    secret = mounted(pod)[folder]["secret"]
    assert secret == {"secretName": SECURITY.tls_secret, "items": [{"key": "ca.crt", "path": file}]}


def test_without_it_everything_is_as_it_was() -> None:
    objects = minio(None)
    assert "tls" not in str(objects.objects)
    assert "--certs-dir" not in server(objects)["args"]
    assert not objects.of("Job")
    assert "grant" not in str(objects.objects)
