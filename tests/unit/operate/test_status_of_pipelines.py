"""`make status`, the rows of pipelines: what a driver, its executors and its jobs lack is said in their row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.operate.cluster import (
    PIPELINES,
    Cluster,
    application,
    component,
    container,
    exited,
    pod,
    rows_of,
    spark,
    waiting,
)

Change = Callable[[Cluster], None]
DRIVER = "user-counts-driver"


def _driver(*containers: dict[str, Any], **status: Any) -> Change:
    return lambda cluster: cluster.put_pod(pod(DRIVER, PIPELINES, spark("driver"), *containers, **status))


def _state(state: str, message: str = "") -> Change:
    return lambda cluster: cluster.put(cluster.applications, application(state, message))


def _said(text: str) -> Change:
    return lambda cluster: cluster.logs.update({(DRIVER, "main", False): text})


def _without(name: str) -> Change:
    return lambda cluster: cluster.remove(f"/api/v1/namespaces/{PIPELINES}/pods", name)


def _job(*containers: dict[str, Any], **status: Any) -> Change:
    labels = {**component("streaming-pipeline"), "effectively-once/pipeline": "user-counts"}
    return lambda cluster: cluster.put_pod(pod("user-counts-create-1-z", PIPELINES, labels, *containers, **status))


def _no_application(cluster: Cluster) -> None:
    cluster.remove(cluster.applications, "user-counts")


DIED = container("main", ready=False, state=exited(3))
LAST = '{"t":1,"event":"epoch"}\nSettingsError: topic is gone (events). Make it.\n{"t":2,"event":"stop"}\n'


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ([_state("SUBMITTED")], "SUBMITTED"),
        ([_state("")], "new: the operator has not looked at it yet"),
        ([_state("SUBMISSION_FAILED", "submit:\n no such class")], "SUBMISSION_FAILED: submit: no such class"),
        ([_state("PENDING_RERUN"), _without(DRIVER)], "PENDING_RERUN"),
        (
            [_state("FAILED"), _driver(DIED, phase="Failed"), _said(LAST)],
            "FAILED; driver: main: exit code 3: SettingsError: topic is gone (events). Make it.",
        ),
        ([_state("FAILED", "driver container failed"), _without(DRIVER)], "FAILED: driver container failed"),
        ([_state("COMPLETED"), _without(DRIVER)], "ended by itself"),
        ([_state("SUSPENDED"), _without(DRIVER)], "is suspended, which its settings do not ask for"),
        ([_without(DRIVER)], "RUNNING, but there is no driver pod"),
        ([_driver(waiting("ImagePullBackOff", "no such image"))], "driver: main: image main:1 cannot be pulled"),
        ([_without("user-counts-exec-2")], "driver, 1/2 executors"),
        ([_no_application], "there is no such SparkApplication: run `make up`"),
        (
            [_no_application, _job(container("main", ready=False, state=exited(1)), phase="Failed")],
            "bucket and topics are not made: main: exit code 1",
        ),
    ],
)
def test_a_pipeline_that_is_not_ready_says_why(changes: list[Change], why: str) -> None:
    cluster = Cluster().ready()
    for change in changes:
        change(cluster)
    found = rows_of(cluster)
    assert [one.component for one in found.values() if not one.ready] == ["pipeline user-counts"]
    assert why in found["pipeline user-counts"].state


def test_an_executor_that_is_pending_is_named_and_one_that_ended_is_not_counted() -> None:
    cluster = Cluster().ready()
    labels = spark("executor", **{"spark-exec-id": "3"})
    condition = {"type": "PodScheduled", "status": "False", "message": "1 Insufficient memory"}
    cluster.put_pod(pod("user-counts-exec-3", PIPELINES, labels, phase="Pending", conditions=[condition]))
    cluster.put_pod(pod("user-counts-exec-2", PIPELINES, labels, DIED, phase="Failed"))
    state = rows_of(cluster)["pipeline user-counts"].state
    assert state == "driver, 1/2 executors; user-counts-exec-3: pending: 1 Insufficient memory"


def test_a_job_that_ended_well_and_a_suspended_pipeline_are_ready() -> None:
    cluster = Cluster().ready()
    _job(container("main", ready=False, state=exited(0)), phase="Succeeded")(cluster)
    assert rows_of(cluster)["pipeline user-counts"].ready
    _state("SUSPENDED")(cluster)
    _without(DRIVER)(cluster)
    suspended = {"user-counts": {"name": "user-counts", "suspend": True}}
    found = rows_of(cluster, pipelines=suspended)["pipeline user-counts"]
    assert (found.ready, found.state) == (True, "suspended, as its settings ask")


def test_driver_starts_by_the_operator_count_as_restarts() -> None:
    cluster = Cluster().ready()
    again = application()
    again["status"]["executionAttempts"] = 4
    cluster.put(cluster.applications, again)
    assert rows_of(cluster)["pipeline user-counts"].restarts == 3


def test_a_pipeline_that_the_output_does_not_name_is_shown_too() -> None:
    cluster = Cluster().ready()
    cluster.put(cluster.applications, application("FAILED", "why", name="stray"))
    assert rows_of(cluster)["pipeline stray"].state == "FAILED: why"


def test_a_standby_that_is_not_there_has_a_red_row_of_its_own() -> None:
    """And one that waits a green one: to the operator it is a driver that runs."""
    changes = {"pipelines": {"user_counts": {"name": "user-counts", "settings": {"standby": True}}}}
    cluster = Cluster().ready()
    missing = rows_of(cluster, **changes)["pipeline user-counts-standby"]
    assert not missing.ready
    assert "no such SparkApplication" in missing.state
