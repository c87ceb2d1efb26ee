"""Settings that would replace volumes or break a quorum are refused while nothing is changed."""

from __future__ import annotations

from typing import Any

import pytest

from infra.cluster.api import Api, ApiError
from infra.components.shape import amount, require_same
from infra.settings import SettingsError
from tests.infra.platform import settings


def stateful_set(size: str, replicas: int = 1, storage_class: str | None = None) -> dict[str, Any]:
    """Return the `spec` of one that is there."""
    spec: dict[str, Any] = {"resources": {"requests": {"storage": size}}}
    if storage_class:
        spec["storageClassName"] = storage_class
    return {"replicas": replicas, "volumeClaimTemplates": [{"spec": spec}]}


class FakeCluster(Api):
    """StatefulSets of the platform's namespace by name."""

    def __init__(self, there: dict[str, dict[str, Any]], status: int = 404) -> None:
        self.there, self.status = there, status

    def get(self, path: str, **_: str) -> dict[str, Any]:
        folder, name = path.rsplit("/", 1)
        assert folder == "/apis/apps/v1/namespaces/effectively-once/statefulsets"
        if name not in self.there:
            raise ApiError(self.status, "no", path)
        return {"spec": self.there[name]}


LAPTOP = {"kafka": stateful_set("4Gi"), "minio": stateful_set("4Gi"), "postgres": stateful_set("1Gi")}


def refused(there: dict[str, dict[str, Any]], **config: object) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        require_same(settings(**config), FakeCluster(there).find)
    assert all("set it back, or back up" in line for line in caught.value.lines)
    return [line.split(";")[0] for line in caught.value.lines]


def test_the_same_settings_and_an_empty_cluster_are_free() -> None:
    require_same(settings(), FakeCluster(LAPTOP).find)
    require_same(settings(profile="production"), FakeCluster({}).find)


@pytest.mark.parametrize(
    ("section", "name", "size"),
    [("kafka", "kafka", "4Gi"), ("object_store", "minio", "4Gi"), ("result_store", "postgres", "1Gi")],
)
@pytest.mark.parametrize("wanted", ["512Mi", "9Gi"])
def test_another_size_is_refused_by_name(section: str, name: str, size: str, wanted: str) -> None:
    (line,) = refused(LAPTOP, **{section: {"storage_size": wanted}})
    assert line.startswith(f"{section}.storage_size: volumes of {name} were made with {size}, ")
    assert line.endswith(f"got {wanted}")


def test_another_storage_class_is_refused_for_each_volume() -> None:
    lines = refused(LAPTOP, storage={"storage_class": "fast"})
    assert [line.partition(" of ")[2].split()[0] for line in lines] == ["kafka", "minio", "postgres"]
    require_same(
        settings(storage={"storage_class": "fast"}),
        FakeCluster({name: stateful_set("4Gi" if name != "postgres" else "1Gi", 1, "fast") for name in LAPTOP}).find,
    )


def test_another_quorum_is_refused_by_name() -> None:
    assert refused(LAPTOP, kafka={"nodes": 3}) == ["kafka.nodes: the quorum was formatted for 1, got 3"]
    assert refused(LAPTOP, kafka={"controllers": 3}) == ["kafka.controllers: the quorum was formatted for 0, got 3"]
    apart = LAPTOP | {"kafka": stateful_set("4Gi", 3), "kafka-controller": stateful_set("4Gi", 3)}
    require_same(settings(kafka={"nodes": 3, "controllers": 3}), FakeCluster(apart).find)
    assert [line.partition(":")[0] for line in refused(apart)] == ["kafka.nodes", "kafka.controllers"]


def test_a_broker_that_is_stopped_is_no_other_quorum() -> None:
    require_same(settings(), FakeCluster(LAPTOP | {"kafka": stateful_set("4Gi", 0)}).find)


def test_what_the_user_brings_is_not_compared() -> None:
    require_same(settings(kafka={"external": "broker.example:9092", "nodes": 3}), FakeCluster(LAPTOP).find)


def test_without_an_answer_nothing_is_taken_to_be_free() -> None:
    with pytest.raises(ApiError, match="403"):
        require_same(settings(), FakeCluster({}, status=403).find)


def test_the_same_amount_written_otherwise_is_the_same() -> None:
    assert amount("8Gi") == amount("8192Mi")
    assert amount("1.5Gi") == amount("1536Mi")
    assert len({amount(text) for text in ("8", "8k", "8Ki", "8M", "8Mi", "8G", "8Gi", "8T", "8Ti", "8m")}) == 10
