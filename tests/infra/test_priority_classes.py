"""PriorityClasses are of the whole cluster: made where that is allowed, and what was there stays as it is."""

from __future__ import annotations

from typing import Any

import pytest

from infra.cluster.api import Api, ApiError
from infra.components.namespaces import MAKER, MARK
from infra.components.priority_classes import RESOURCE, resolve
from infra.settings import Settings, SettingsError
from tests.infra.platform import Deployed, deploy_once, settings

SERVERS, DRIVERS = "effectively-once-servers", "effectively-once-drivers"
PIPELINE: dict[str, Any] = {"pipelines": {"user_counts": {}}}


class Cluster(Api):
    """Classes by name with their annotations, and what may be done to them; `status` is for what is not there."""

    def __init__(
        self, classes: dict[str, dict[str, str]] | None = None, verbs: str = "get create patch", status: int = 404
    ) -> None:
        self.classes, self.verbs, self.status = classes or {}, verbs.split(), status

    def get(self, path: str, **_: str) -> dict[str, Any]:
        name = path.removeprefix("/apis/scheduling.k8s.io/v1/priorityclasses/")
        if name not in self.classes:
            raise ApiError(self.status, "no", path)
        return {"metadata": {"name": name, "annotations": self.classes[name]}}

    def may(self, verb: str, group: str, resource: str) -> bool:
        return verb in self.verbs and (group, resource) == ("scheduling.k8s.io", RESOURCE)


def resolved(cluster: Cluster, **classes: str) -> tuple[Settings, list[str]]:
    return resolve(settings(scheduling={"priority_classes": classes}, **PIPELINE), cluster.find, cluster.may)


def used(wanted: Settings) -> tuple[str | None, str | None]:
    return wanted.priority_class("servers"), wanted.priority_class("drivers")


def made(wanted: Settings) -> tuple[Deployed, set[str]]:
    deployed = deploy_once(wanted)
    return deployed, set(deployed.engine.of("PriorityClass"))


def test_an_empty_cluster_gets_both_before_whatever_names_them() -> None:
    wanted, warnings = resolved(Cluster())
    assert (used(wanted), warnings) == ((SERVERS, DRIVERS), [])
    deployed, names = made(wanted)
    assert names == {SERVERS, DRIVERS}
    found = {name: one.inputs for name, one in deployed.engine.of("PriorityClass").items()}
    assert found[SERVERS]["value"] > found[DRIVERS]["value"] > 0
    for one in found.values():
        assert one["globalDefault"] is False
        assert one["metadata"]["annotations"][MARK] == MAKER
    for release in ("kafka", "minio", "postgres", "spark-operator"):
        assert deployed.values(release)["priorityClass"] == SERVERS
        assert SERVERS in deployed.engine.below(deployed.engine.of("Chart")[release])
    assert deployed.values("user-counts")["driver"]["priorityClass"] == DRIVERS
    assert "priorityClass" not in deployed.values("user-counts")["executors"]


def test_one_of_ours_is_kept_and_one_of_others_is_used_and_not_touched() -> None:
    wanted, warnings = resolved(Cluster({SERVERS: {}, DRIVERS: {MARK: MAKER}}, verbs="get"))
    assert (used(wanted), warnings) == ((SERVERS, DRIVERS), [])
    assert made(wanted)[1] == {DRIVERS}


@pytest.mark.parametrize(
    "cluster", [Cluster(verbs="get create"), Cluster(verbs="get patch"), Cluster(verbs="create patch", status=403)]
)
def test_who_may_not_make_them_deploys_without(cluster: Cluster) -> None:
    wanted, warnings = resolved(cluster)
    assert used(wanted) == (None, None)
    assert [line.partition(":")[0] for line in warnings] == [
        "scheduling.priority_classes.servers",
        "scheduling.priority_classes.drivers",
    ]
    deployed, names = made(wanted)
    assert names == set()
    assert "priorityClass" not in deployed.values("kafka")
    assert "priorityClass" not in deployed.values("user-counts")["driver"]


def test_a_class_that_is_named_is_used_and_none_is_none() -> None:
    wanted, warnings = resolved(Cluster({"high": {}}), servers="high", drivers="none")
    assert (used(wanted), warnings) == (("high", None), [])
    assert made(wanted)[1] == set()
    # Who may not look cannot know.
    assert used(resolved(Cluster(verbs="", status=403), servers="high", drivers="none")[0]) == ("high", None)


def test_a_class_that_is_named_and_not_there_is_refused() -> None:
    with pytest.raises(SettingsError) as refused:
        resolved(Cluster(), servers="hihg")
    (line,) = refused.value.lines
    assert line.startswith(
        "scheduling.priority_classes.servers: the cluster has no PriorityClass 'hihg'; make it first"
    )


def test_without_an_answer_nothing_is_taken_to_be_absent() -> None:
    with pytest.raises(ApiError, match="500"):
        resolved(Cluster(status=500))
