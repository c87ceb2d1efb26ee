"""`make status`: all ready is green; each way not to be ready makes exactly its own row red and says why."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console as Screen

from infra.cluster.api import ApiError, UnreachableError
from infra.operate.rows import is_ours
from infra.operate.status import age, status
from tests.unit.operate.cluster import (
    AT,
    BORN,
    OPERATOR,
    PIPELINES,
    PLATFORM,
    Cluster,
    access,
    component,
    container,
    event,
    exited,
    meta,
    pod,
    rows_of,
    waiting,
)

KAFKA_SETS = f"/apis/apps/v1/namespaces/{PLATFORM}/statefulsets"


def test_everything_ready_is_one_green_row_a_component() -> None:
    found = rows_of(Cluster().ready())
    assert list(found) == [
        "nodes",
        f"namespace {PLATFORM}",
        f"namespace {OPERATOR}",
        f"namespace {PIPELINES}",
        "kafka",
        "minio",
        "postgres",
        "spark-operator",
        "history-server",
        "pipeline user-counts",
    ]
    assert [one for one in found.values() if not one.ready] == []
    assert found["kafka"].state == "1/1 pod"
    assert found["pipeline user-counts"].state == "driver, 2/2 executors"
    assert found["kafka"].since == datetime(2026, 11, 20, 19, 50, tzinfo=UTC)


def test_what_watches_is_a_row_where_it_was_deployed() -> None:
    cluster = Cluster().ready()
    assert rows_of(cluster, monitoring=True)["monitoring"].state.startswith("there is no such workload")
    cluster._workload("statefulsets", PLATFORM, "monitoring", "prometheus-0")
    assert rows_of(cluster, monitoring=True)["monitoring"].ready
    assert "monitoring" not in rows_of(cluster)


def _kafka(*containers: dict[str, Any], **status: Any) -> dict[str, Any]:
    return pod("kafka-0", PLATFORM, component("kafka"), *containers, **status)


def _pending(message: str) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return _kafka(phase="Pending", conditions=[condition], containerStatuses=[])


def _about_kafka(reason: str, message: str) -> dict[str, Any]:
    return event("Pod", "kafka-0", PLATFORM, reason, message)


def _claim(message: str) -> dict[str, Any]:
    return event("PersistentVolumeClaim", "data-kafka-0", PLATFORM, "ProvisioningFailed", message)


NOT_READY = container("main", ready=False)
NOT_STARTED = container("main", ready=False, started=False)


def case(broken: dict[str, Any], why: str, happened: dict[str, Any] | None = None, log: str = "") -> tuple[Any, ...]:
    """What is wrong with Kafka's pod, what has to be told of it; an event about it, and what it logged before."""
    return broken, why, happened, log


@pytest.mark.parametrize(
    ("broken", "why", "happened", "log"),
    [
        case(_pending("0/1 nodes are available: 1 Insufficient cpu."), "pending: 0/1 nodes are available: 1 Ins"),
        case(_pending("unbound claims"), "unbound claims; volume data-kafka-0: no such class", _claim("no such class")),
        case(
            _kafka(waiting("ImagePullBackOff", "Back-off pulling")),
            "image main:1 cannot be pulled: Failed to pull image x: 403",
            _about_kafka("Failed", "Failed to pull image x: 403"),
        ),
        case(_kafka(waiting("ErrImageNeverPull", "not present")), "image main:1 cannot be pulled: not present"),
        case(
            _kafka(waiting("CrashLoopBackOff", lastState=exited(137, "OOMKilled"))),
            "crash loop: exit code 137 (OOMKilled)",
        ),
        case(
            _kafka(waiting("CrashLoopBackOff", lastState=exited(1))),
            "crash loop: exit code 1: FATAL: no disk",
            log="INFO up\nFATAL: no disk\n\tat x.Y(Z.java)\n",
        ),
        case(
            _kafka(waiting("CreateContainerConfigError", 'secret "minio-root" not found')),
            'CreateContainerConfigError: secret "minio-root" not found',
        ),
        case(
            _kafka(waiting("ContainerCreating")),
            "is being created: FailedMount: no volume",
            _about_kafka("FailedMount", "no volume"),
        ),
        case(
            _kafka(NOT_READY),
            "readiness probe: Readiness probe failed: refused",
            _about_kafka("Unhealthy", "Readiness probe failed: refused"),
        ),
        case(_kafka(NOT_READY), "runs, readiness probe has not passed yet"),
        case(_kafka(NOT_STARTED), "runs, startup probe has not passed yet"),
        case(_kafka(container("main", ready=False, state=exited(2))), "exit code 2"),
        case(_kafka(container("main", ready=False, state=exited(0))), "with exit code 0, and should not end"),
        case(_kafka(phase="Failed", reason="Evicted", message="low on memory"), "failed: Evicted: low on memory"),
        case(_kafka(phase="Unknown", conditions=[], containerStatuses=[]), "node node-1 no longer reports it"),
        case(_kafka(conditions=[{"type": "Ready", "status": "False", "reason": "NodeNotReady"}]), "NodeNotReady"),
        case(
            _kafka(
                initContainerStatuses=[{**waiting("CrashLoopBackOff", lastState=exited(3)), "name": "prepare"}],
                containerStatuses=[waiting("PodInitializing")],
            ),
            "init prepare: crash loop: exit code 3",
        ),
    ],
)
def test_a_pod_that_is_not_ready_says_why(
    broken: dict[str, Any], why: str, happened: dict[str, Any] | None, log: str
) -> None:
    cluster = Cluster().ready()
    cluster.put_pod(broken)
    if happened:
        cluster.put_event(happened)
    if log:
        cluster.logs["kafka-0", "main", True] = log
    found = rows_of(cluster)
    assert [one.component for one in found.values() if not one.ready] == ["kafka"]
    assert found["kafka"].state.startswith("0/1 pod; kafka-0: ")
    assert why in found["kafka"].state


def test_a_pod_that_is_being_deleted_is_not_ready() -> None:
    cluster = Cluster().ready()
    leaving = _kafka()
    leaving["metadata"]["deletionTimestamp"] = BORN
    cluster.put_pod(leaving)
    assert rows_of(cluster)["kafka"].state == "0/1 pod; kafka-0: is being deleted"


def test_restarts_and_the_last_event_are_shown_of_a_component_that_is_ready_again() -> None:
    cluster = Cluster().ready()
    cluster.put_pod(_kafka(container("main", restartCount=3)))
    cluster.put_event(_about_kafka("BackOff", "old") | {"lastTimestamp": "2026-11-20T19:00:00Z"})
    cluster.put_event(_about_kafka("Started", "new") | {"lastTimestamp": None, "eventTime": "2026-11-20T19:58:00.5Z"})
    cluster.put_event(event("Pod", "minio-0", PLATFORM, "Started", "another's"))
    found = rows_of(cluster)["kafka"]
    assert found.ready
    assert found.restarts == 3
    assert found.last_event is not None
    assert found.last_event.message == "new"


def test_brokers_and_controllers_apart_are_one_component() -> None:
    cluster = Cluster().ready()
    controllers = {**meta("kafka-controller", PLATFORM), "labels": component("kafka")}
    cluster.put(KAFKA_SETS, {"metadata": controllers, "spec": {"replicas": 3}})
    for number in range(2):
        cluster.put_pod(pod(f"kafka-controller-{number}", PLATFORM, component("kafka")))
    found = rows_of(cluster)["kafka"]
    assert (found.ready, found.state) == (False, "3/4 pods")


def test_a_workload_without_pods_shows_what_refused_them_and_a_missing_workload_what_to_do() -> None:
    cluster = Cluster().ready()
    cluster.remove(f"/api/v1/namespaces/{PLATFORM}/pods", "kafka-0")
    cluster.put_event(event("StatefulSet", "kafka", PLATFORM, "FailedCreate", "exceeded quota"))
    assert rows_of(cluster)["kafka"].state == "0/1 pod; no pod was made: exceeded quota"
    cluster.remove(KAFKA_SETS, "kafka")
    found = rows_of(cluster)["kafka"]
    assert (found.ready, found.state) == (False, f"there is no such workload in {PLATFORM}: run `make up`")


def test_what_was_brought_along_is_not_judged() -> None:
    cluster = Cluster().ready()
    cluster.remove(KAFKA_SETS, "kafka")
    names = {"platform": PLATFORM, "operator": None, "pipelines": PIPELINES}
    kafka = {"bootstrap": "broker.example.org:9092,other:9092", "external_bootstrap": None}
    found = rows_of(cluster, kafka=kafka, namespaces=names, result_store=None, history_server=None)
    assert [one.component for one in found.values() if not one.ready] == []
    assert "broker.example.org" in found["kafka"].state
    assert "installed one" in found["spark-operator"].state
    assert "postgres" not in found
    assert "history-server" not in found


@pytest.mark.parametrize(
    ("host", "ours"),
    [
        ("kafka", True),
        ("kafka.a", True),
        ("kafka.a.svc.cluster.local", True),
        ("kafka.b.svc", False),
        ("localhost", False),
        ("10.0.0.1", False),
        ("broker.example.org", False),
    ],
)
def test_a_service_of_our_namespace_is_told_from_a_foreign_host(host: str, ours: bool) -> None:
    assert is_ours(host, "a") is ours


def test_nodes_and_namespaces_say_what_is_wrong_with_them() -> None:
    cluster = Cluster().ready()
    cluster.objects[f"/api/v1/namespaces/{OPERATOR}"] = {"status": {"phase": "Terminating"}}
    conditions = {
        "node-1": [{"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting"}],
        "node-2": [{"type": "Ready", "status": "True"}, {"type": "PIDPressure", "status": "True"}],
    }
    for name, said in conditions.items():
        cluster.put("/api/v1/nodes", {"metadata": meta(name, ""), "status": {"conditions": said}})
    found = rows_of(cluster)
    assert found["nodes"].state == "0/2 nodes; node-1: not ready: Kubelet stopped posting (and 1 more)"
    assert found[f"namespace {OPERATOR}"].state == "is terminating"
    del cluster.objects[f"/api/v1/namespaces/{PIPELINES}"]
    found = rows_of(cluster)
    assert found[f"namespace {PIPELINES}"].state == "is not there: run `make up`"
    assert not found["pipeline user-counts"].ready


def test_a_cordoned_node_is_shown() -> None:
    cluster = Cluster().ready()
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    cluster.put("/api/v1/nodes", {"metadata": meta("node-1", ""), "spec": {"unschedulable": True}, "status": ready})
    assert "cordoned" in rows_of(cluster)["nodes"].state


def test_nodes_that_a_tenant_may_not_see_are_no_fault_but_our_pods_are() -> None:
    cluster = Cluster().ready()
    cluster.objects["/api/v1/nodes"] = ApiError(403, "forbidden", "/api/v1/nodes")
    assert rows_of(cluster)["nodes"].ready
    path = f"/api/v1/namespaces/{PLATFORM}/pods"
    cluster.objects[path] = ApiError(403, "pods is forbidden", path)
    found = rows_of(cluster)
    assert found[f"pods of {PLATFORM}"].state == "cannot be asked: pods is forbidden"


def _screen(cluster: Cluster) -> tuple[int, str]:
    out = io.StringIO()
    code = status(access(cluster), Screen(file=out, width=200))
    return code, out.getvalue()


def test_the_exit_code_and_the_last_line_tell_the_outcome() -> None:
    cluster = Cluster().ready()
    code, text = _screen(cluster)
    assert code == 0
    assert text.endswith("all ready\n")
    cluster.put_pod(_kafka(waiting("CreateContainerConfigError", "[odd] markup")))
    cluster.put_event(_about_kafka("Failed", "Error: [odd] markup"))
    code, text = _screen(cluster)
    assert code == 1
    assert text.endswith("not ready: kafka; `make bundle` collects what is known\n")
    assert text.count("[odd] markup") == 2


def test_a_cluster_that_does_not_answer_is_no_table_but_an_error() -> None:
    cluster = Cluster().ready()
    cluster.objects[f"/api/v1/namespaces/{PLATFORM}"] = UnreachableError("the cluster does not answer")
    with pytest.raises(UnreachableError):
        _screen(cluster)


@pytest.mark.parametrize(
    ("seconds", "shown"), [(-3, "0s"), (59, "59s"), (119, "119s"), (120, "2m"), (7200, "2h"), (172_800, "2d")]
)
def test_ages_are_short(seconds: int, shown: str) -> None:
    assert age(AT - timedelta(seconds=seconds), AT) == shown
