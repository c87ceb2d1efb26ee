"""Room for a run: deployed pipelines are suspended and come back, also after a failure; nothing of a run stays."""

from __future__ import annotations

from contextlib import nullcontext
from typing import cast

import pytest

from tests.harness.adapters.cluster import Cluster, ClusterTimeoutError
from tests.harness.adapters.tenancy import SUSPENDED_BY, Tenancy
from tests.unit.harness.fake_cluster import RUNS, UIDS, FakeCluster, Object, pod


def deployed(name: str, state: str = "RUNNING", *, suspend: bool = False, by: str | None = None) -> Object:
    annotations = {SUSPENDED_BY: by} if by else {}
    return {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"suspend": suspend},
        "status": {"applicationState": {"state": state}},
    }


@pytest.fixture
def cluster() -> FakeCluster:
    """Return a cluster whose operator suspends at once."""
    one = FakeCluster()
    one.there = {"user-counts": deployed("user-counts")}

    def obey(name: str, change: Object) -> None:
        state = "SUSPENDED" if change["spec"]["suspend"] else "RESUMING"
        one.there[name]["status"]["applicationState"]["state"] = state

    one.on_patch = obey
    return one


def tenancy(cluster: FakeCluster) -> Tenancy:
    return Tenancy(cast("Cluster", cluster), "r-1", lambda _: None)


def patches(cluster: FakeCluster) -> list[tuple[str, bool]]:
    return [(one[1], one[2]) for one in cluster.done if one[0] == "patch"]


@pytest.mark.parametrize("end", [None, KeyboardInterrupt])
def test_pipelines_are_suspended_and_resumed_however_a_run_ends(
    cluster: FakeCluster, end: type[BaseException] | None
) -> None:
    with pytest.raises(end) if end else nullcontext(), tenancy(cluster):
        assert patches(cluster) == [("user-counts", True)]
        if end:
            raise end
    assert patches(cluster) == [("user-counts", True), ("user-counts", False)]
    assert ("delete all", "effectively-once/run=r-1") in cluster.done


def test_one_that_does_not_rest_is_resumed_and_said(cluster: FakeCluster) -> None:
    cluster.pods_there = [pod("user-counts-driver", UIDS["a"], "driver", state=RUNS)]
    with pytest.raises(ClusterTimeoutError, match="user-counts"), tenancy(cluster):
        pass
    assert patches(cluster)[-1] == ("user-counts", False)


def test_pods_that_came_to_their_end_take_no_room(cluster: FakeCluster) -> None:
    left = pod("user-counts-exec-1", UIDS["a"], "executor", state=RUNS)
    cluster.pods_there = [{**left, "status": {**left["status"], "phase": "Failed"}}]
    with tenancy(cluster):
        assert patches(cluster) == [("user-counts", True)]


@pytest.mark.parametrize(("by", "resumed"), [(None, []), ("r-0", [("user-counts", False)])])
def test_one_that_a_killed_run_left_suspended_is_resumed_and_one_that_was_on_purpose_stays_so(
    cluster: FakeCluster, by: str | None, resumed: list[tuple[str, bool]]
) -> None:
    cluster.there = {"user-counts": deployed("user-counts", "SUSPENDED", suspend=True, by=by)}
    with tenancy(cluster):
        assert patches(cluster) == []
    assert patches(cluster) == resumed


def test_what_an_earlier_run_left_is_deleted_first(cluster: FakeCluster) -> None:
    cluster.left = ["SparkApplication/uc-0"]
    with tenancy(cluster):
        assert cluster.done[0] == ("delete all", "effectively-once/run")


def test_every_pipeline_is_resumed_though_one_cannot_be(cluster: FakeCluster) -> None:
    cluster.there["other"] = deployed("other")
    with pytest.raises(ConnectionError), tenancy(cluster):
        cluster.refuse_patch = {"user-counts"}
    assert patches(cluster)[-1] == ("other", False)
