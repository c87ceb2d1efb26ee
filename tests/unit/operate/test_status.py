"""`make status`: all ready is green; each way not to be ready makes exactly its own row red and says why."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console as Screen

from infra.cluster.api import ApiError, UnreachableError
from infra.operate.facts import gather
from infra.operate.rows import Row, is_ours, rows
from infra.operate.status import age, status
from tests.unit.operate.cluster import (
    BORN,
    OPERATOR,
    PIPELINES,
    PLATFORM,
    Cluster,
    access,
    application,
    component,
    container,
    event,
    exited,
    meta,
    platform,
    pod,
    spark,
    waiting,
)

AT = datetime(2026, 11, 20, 20, 0, tzinfo=UTC)
KAFKA_SETS = f"/apis/apps/v1/namespaces/{PLATFORM}/statefulsets"


def _rows(cluster: Cluster, **changes: Any) -> dict[str, Row]:
    described = platform(**changes)
    return {one.component: one for one in rows(described, gather(cluster, described, AT))}


def test_everything_ready_is_one_green_row_a_component() -> None:
    found = _rows(Cluster().ready())
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
    assert _rows(cluster, monitoring=True)["monitoring"].state.startswith("there is no such workload")
    cluster._workload("statefulsets", PLATFORM, "monitoring", "prometheus-0")
    assert _rows(cluster, monitoring=True)["monitoring"].ready
    assert "monitoring" not in _rows(cluster)


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
    found = _rows(cluster)
    assert [one.component for one in found.values() if not one.ready] == ["kafka"]
    assert found["kafka"].state.startswith("0/1 pod; kafka-0: ")
    assert why in found["kafka"].state


def test_a_pod_that_is_being_deleted_is_not_ready() -> None:
    cluster = Cluster().ready()
    leaving = _kafka()
    leaving["metadata"]["deletionTimestamp"] = BORN
    cluster.put_pod(leaving)
    assert _rows(cluster)["kafka"].state == "0/1 pod; kafka-0: is being deleted"


def test_restarts_and_the_last_event_are_shown_of_a_component_that_is_ready_again() -> None:
    cluster = Cluster().ready()
    cluster.put_pod(_kafka(container("main", restartCount=3)))
    cluster.put_event(_about_kafka("BackOff", "old") | {"lastTimestamp": "2026-11-20T19:00:00Z"})
    cluster.put_event(_about_kafka("Started", "new") | {"lastTimestamp": None, "eventTime": "2026-11-20T19:58:00.5Z"})
    cluster.put_event(event("Pod", "minio-0", PLATFORM, "Started", "another's"))
    found = _rows(cluster)["kafka"]
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
    found = _rows(cluster)["kafka"]
    assert (found.ready, found.state) == (False, "3/4 pods")


def test_a_workload_without_pods_shows_what_refused_them_and_a_missing_workload_what_to_do() -> None:
    cluster = Cluster().ready()
    cluster.remove(f"/api/v1/namespaces/{PLATFORM}/pods", "kafka-0")
    cluster.put_event(event("StatefulSet", "kafka", PLATFORM, "FailedCreate", "exceeded quota"))
    assert _rows(cluster)["kafka"].state == "0/1 pod; no pod was made: exceeded quota"
    cluster.remove(KAFKA_SETS, "kafka")
    found = _rows(cluster)["kafka"]
    assert (found.ready, found.state) == (False, f"there is no such workload in {PLATFORM}: run `make up`")


def test_what_was_brought_along_is_not_judged() -> None:
    cluster = Cluster().ready()
    cluster.remove(KAFKA_SETS, "kafka")
    names = {"platform": PLATFORM, "operator": None, "pipelines": PIPELINES}
    kafka = {"bootstrap": "broker.example.org:9092,other:9092", "external_bootstrap": None}
    found = _rows(cluster, kafka=kafka, namespaces=names, result_store=None, history_server=None)
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
    found = _rows(cluster)
    assert found["nodes"].state == "0/2 nodes; node-1: not ready: Kubelet stopped posting (and 1 more)"
    assert found[f"namespace {OPERATOR}"].state == "is terminating"
    del cluster.objects[f"/api/v1/namespaces/{PIPELINES}"]
    found = _rows(cluster)
    assert found[f"namespace {PIPELINES}"].state == "is not there: run `make up`"
    assert not found["pipeline user-counts"].ready


def test_a_cordoned_node_is_shown() -> None:
    cluster = Cluster().ready()
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    cluster.put("/api/v1/nodes", {"metadata": meta("node-1", ""), "spec": {"unschedulable": True}, "status": ready})
    assert "cordoned" in _rows(cluster)["nodes"].state


def test_nodes_that_a_tenant_may_not_see_are_no_fault_but_our_pods_are() -> None:
    cluster = Cluster().ready()
    cluster.objects["/api/v1/nodes"] = ApiError(403, "forbidden", "/api/v1/nodes")
    assert _rows(cluster)["nodes"].ready
    path = f"/api/v1/namespaces/{PLATFORM}/pods"
    cluster.objects[path] = ApiError(403, "pods is forbidden", path)
    found = _rows(cluster)
    assert found[f"pods of {PLATFORM}"].state == "cannot be asked: pods is forbidden"


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
    found = _rows(cluster)
    assert [one.component for one in found.values() if not one.ready] == ["pipeline user-counts"]
    assert why in found["pipeline user-counts"].state


def test_an_executor_that_is_pending_is_named_and_one_that_ended_is_not_counted() -> None:
    cluster = Cluster().ready()
    labels = spark("executor", **{"spark-exec-id": "3"})
    condition = {"type": "PodScheduled", "status": "False", "message": "1 Insufficient memory"}
    cluster.put_pod(pod("user-counts-exec-3", PIPELINES, labels, phase="Pending", conditions=[condition]))
    cluster.put_pod(pod("user-counts-exec-2", PIPELINES, labels, DIED, phase="Failed"))
    state = _rows(cluster)["pipeline user-counts"].state
    assert state == "driver, 1/2 executors; user-counts-exec-3: pending: 1 Insufficient memory"


def test_a_job_that_ended_well_and_a_suspended_pipeline_are_ready() -> None:
    cluster = Cluster().ready()
    _job(container("main", ready=False, state=exited(0)), phase="Succeeded")(cluster)
    assert _rows(cluster)["pipeline user-counts"].ready
    _state("SUSPENDED")(cluster)
    _without(DRIVER)(cluster)
    suspended = {"user-counts": {"name": "user-counts", "suspend": True}}
    found = _rows(cluster, pipelines=suspended)["pipeline user-counts"]
    assert (found.ready, found.state) == (True, "suspended, as its settings ask")


def test_driver_starts_by_the_operator_count_as_restarts() -> None:
    cluster = Cluster().ready()
    again = application()
    again["status"]["executionAttempts"] = 4
    cluster.put(cluster.applications, again)
    assert _rows(cluster)["pipeline user-counts"].restarts == 3


def test_a_pipeline_that_the_output_does_not_name_is_shown_too() -> None:
    cluster = Cluster().ready()
    cluster.put(cluster.applications, application("FAILED", "why", name="stray"))
    assert _rows(cluster)["pipeline stray"].state == "FAILED: why"


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


def test_a_standby_that_is_not_there_has_a_red_row_of_its_own() -> None:
    """And one that waits a green one: to the operator it is a driver that runs."""
    changes = {"pipelines": {"user_counts": {"name": "user-counts", "settings": {"standby": True}}}}
    cluster = Cluster().ready()
    missing = _rows(cluster, **changes)["pipeline user-counts-standby"]
    assert not missing.ready
    assert "no such SparkApplication" in missing.state
