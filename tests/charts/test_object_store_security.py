"""A Job gives the object store's users their keys and folders; it and the server alone have the owner's keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from effectively_once.operate.grant_objects import Grants
from effectively_once.operate.grants_file import read_grants
from infra.policy.restricted import violations
from infra.values.minio import Folder, MinioValues, Security
from tests.charts.render import NAMESPACE, Object, Rendered, environment, render
from tests.charts.samples import IMAGE
from tests.charts.samples import MINIO_SECURITY as SECURITY


def minio(security: Security | None = SECURITY) -> Rendered:
    return render("minio", MinioValues(image=IMAGE, credentials_secret="root", security=security).to_helm())


def job(objects: Rendered) -> Object:
    (found,) = objects.of("Job")
    return found


def test_the_job_reads_what_the_program_takes_with_the_owners_keys(tmp_path: Path) -> None:
    objects = minio()
    (tmp_path / "grants.json").write_text(objects.one("ConfigMap", "minio-grants")["data"]["grants.json"])
    (tmp_path / "orders-0").write_text("x")
    grants, _ = read_grants(Grants, tmp_path / "grants.json", tmp_path)
    assert grants.endpoint == f"http://minio.{NAMESPACE}.svc:9000"
    assert [one.model_dump() for one in grants.policies["orders"]] == [{"bucket": "lake", "folder": "orders/"}]
    assert (grants.users, grants.buckets) == ({"orders-0": "orders"}, ["lake"])
    assert [one.folder for one in grants.folders] == ["spark-events/orders/"]
    pod = job(objects)["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == SECURITY.grant_image
    assert environment(pod)["AWS_SECRET_ACCESS_KEY"] == {"secretKeyRef": {"name": "root", "key": "rootPassword"}}
    assert violations(pod) == []


def test_other_users_or_renewed_keys_are_another_job() -> None:
    """A Job cannot be changed; the same one is not run again."""
    others: list[dict[str, Any]] = [{"users": {}}, {"users_secret": "minio-users-1"}, {"folders": ()}]
    others.append({"grant_image": "registry.example/spark:2"})
    made = {job(minio(SECURITY.model_copy(update=change)))["metadata"]["name"] for change in ({}, {}, *others)}
    assert len(made) == 5


def test_no_request_for_the_store_goes_to_the_pod_that_gives_rights() -> None:
    """A Service sends requests to every pod that its selector is of, and a Job's pod is as ready as another."""
    objects = minio()
    labels = job(objects)["spec"]["template"]["metadata"]["labels"]
    for one in objects.of("Service"):
        assert not one["spec"]["selector"].items() <= labels.items(), one["metadata"]["name"]
    selector = objects.one("StatefulSet", "minio")["spec"]["selector"]["matchLabels"]
    assert not selector.items() <= labels.items()


@pytest.mark.parametrize("folder", ["", "orders", "*/", "orders/*", "../"])
def test_the_chart_takes_whole_folders_that_are_named(folder: str) -> None:
    with pytest.raises(ValueError, match="folder"):
        Folder(bucket="lake", folder=folder)


def test_without_it_everything_is_as_it_was() -> None:
    objects = minio(None)
    assert not objects.of("Job")
    assert "grant" not in str(objects.objects)
