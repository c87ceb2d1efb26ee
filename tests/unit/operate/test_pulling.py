"""An image or a Secret that is not in the cluster is told within seconds, once, with what mends it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from kubernetes import client

from infra.cluster.api import Lines, UnreachableError
from infra.operate.objects import PART_OF, PROJECT, Pod
from infra.operate.pulling import hopeless, lacking, pods_of, unpullable, watching

OURS, THEIRS = "effectively-once-spark:0123456789ab", "registry.example/team/clicks:7"


def pod(name: str, image: str, state: Any, *, deleted: bool = False, init: bool = False) -> dict[str, Any]:
    """A pod as the API gives it, made of the classes of Kubernetes' own client."""
    status = client.V1ContainerStatus(
        name="main", image=image, image_id="", ready=False, restart_count=0, started=False, state=state
    )
    statuses: dict[str, Any] = {f"{'init_' if init else ''}container_statuses": [status]}
    made = client.V1Pod(
        metadata=client.V1ObjectMeta(
            name=name,
            namespace="pipelines",
            uid=f"uid-{name}",
            labels={PART_OF: PROJECT},
            deletion_timestamp=datetime(2026, 11, 20, tzinfo=UTC) if deleted else None,
        ),
        status=client.V1PodStatus(phase="Pending", **statuses),
    )
    api: Any = client.ApiClient()
    found: dict[str, Any] = api.sanitize_for_serialization(made)
    return found


def waiting(reason: str, message: str | None = None) -> Any:
    return client.V1ContainerState(waiting=client.V1ContainerStateWaiting(reason=reason, message=message))


RUNNING = client.V1ContainerState(running=client.V1ContainerStateRunning(started_at=datetime(2026, 11, 20, tzinfo=UTC)))


class Cluster:
    """Pods by what is asked, and how often it was."""

    def __init__(self, *pods: dict[str, Any], fails: int = 0) -> None:
        self._pods, self._fails = pods, fails
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.often = threading.Event()

    def get(self, path: str, **query: str) -> dict[str, Any]:
        self.asked.append((path, query))
        if len(self.asked) >= 6:
            self.often.set()
        if len(self.asked) <= self._fails:
            raise UnreachableError("the cluster is not there yet")
        return {"items": self._pods}

    def text(self, path: str, **query: str) -> str:
        raise NotImplementedError

    def follow(self, path: str, **query: str) -> Lines:
        raise NotImplementedError


@pytest.mark.parametrize("init", [False, True])
@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"])
def test_a_pod_that_cannot_have_its_image_is_told_with_what_mends_it(reason: str, init: bool) -> None:
    found = Pod.model_validate(pod("user-counts-create", OURS, waiting(reason, "no such\nimage"), init=init))
    ((image, line),) = unpullable([found])
    assert image == OURS
    assert line.startswith(f"pod pipelines/user-counts-create waits for image {OURS}: {reason} (no such image). ")
    assert "`make up` builds and loads it" in line
    assert "\n" not in line


def test_of_an_image_that_is_not_ours_its_name_is_to_be_corrected() -> None:
    ((_, line),) = unpullable([Pod.model_validate(pod("clicks", THEIRS, waiting("ErrImagePull")))])
    assert "(" not in line
    assert "Correct its name" in line
    assert "make up" not in line


@pytest.mark.parametrize(
    "fine",
    [
        pod("runs", OURS, RUNNING),
        pod("comes", OURS, waiting("ContainerCreating")),
        pod("crashes", OURS, waiting("CrashLoopBackOff")),
        pod("goes", OURS, waiting("ErrImagePull"), deleted=True),
        pod("says nothing", OURS, None),
    ],
    ids=lambda one: str(one["metadata"]["name"]),
)
def test_a_pod_that_waits_for_something_else_is_not_told(fine: dict[str, Any]) -> None:
    assert list(unpullable([Pod.model_validate(fine)])) == []


@pytest.fixture
def lines() -> Iterator[list[str]]:
    yield []


def test_each_image_is_told_once_however_many_pods_wait_and_whatever_the_cluster_does_before(lines: list[str]) -> None:
    cluster = Cluster(*(pod(f"pod-{n}", OURS, waiting("ErrImagePull")) for n in range(3)), fails=3)
    before = threading.active_count()
    with watching(lambda: cluster, None, lines.append, every_s=0.01):
        assert cluster.often.wait(20)
    assert len(lines) == 1
    assert lines[0].startswith("pod pipelines/pod-0 waits for image")
    assert threading.active_count() <= before + 1
    assert cluster.asked[0] == ("/api/v1/pods", {"labelSelector": f"{PART_OF}={PROJECT}"})


NO_SECRET, NO_KEY = 'secret "geo" not found', "couldn't find key token in Secret pipelines/geo"
NOT_YET = "failed to sync secret cache: timed out waiting for the condition"


@pytest.mark.parametrize("message", [NO_SECRET, NO_KEY])
def test_a_secret_or_key_that_is_not_there_is_told_once_and_waited_for(message: str, lines: list[str]) -> None:
    pods = [pod(name, OURS, waiting("CreateContainerConfigError", message)) for name in ("driver", "other")]
    cluster = Cluster(*pods)
    with watching(lambda: cluster, None, lines.append, every_s=0.01):
        assert cluster.often.wait(20)
    (line,) = lines
    assert line.startswith(
        f"pod pipelines/driver does not start: CreateContainerConfigError ({message}). Put the Secret"
    )
    assert list(hopeless(map(Pod.model_validate, pods), ())) == [], "somebody may be making it"


def test_the_setting_is_named_where_the_pod_is_of_a_pipeline() -> None:
    one = pod("driver", OURS, waiting("CreateContainerConfigError", NO_KEY))
    one["metadata"]["labels"]["effectively-once/pipeline"] = "clicks"
    ((_, line),) = lacking([Pod.model_validate(one)])
    assert "correct `pipelines.<name>.secrets` of clicks that names it" in line


@pytest.mark.parametrize(("reason", "message"), [("CreateContainerConfigError", NOT_YET), ("CrashLoopBackOff", NO_KEY)])
def test_a_cache_that_is_not_filled_yet_is_no_missing_secret(reason: str, message: str) -> None:
    assert list(lacking([Pod.model_validate(pod("driver", OURS, waiting(reason, message)))])) == []


def test_only_the_namespaces_of_the_stack_are_asked_where_they_are_known() -> None:
    cluster = Cluster(pod("runs", OURS, RUNNING))
    assert len(pods_of(cluster, ["a", "b"])) == 2
    assert [path for path, _ in cluster.asked] == ["/api/v1/namespaces/a/pods", "/api/v1/namespaces/b/pods"]
