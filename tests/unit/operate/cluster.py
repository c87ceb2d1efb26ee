"""A cluster that was written down: objects as the API gives them, and a reader that answers from them."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from infra.cluster.access import Access
from infra.cluster.api import ApiError, Lines
from infra.cluster.platform import Platform, parse_platform
from infra.operate.facts import gather
from infra.operate.rows import Row, rows

AT = datetime(2026, 11, 20, 20, 0, tzinfo=UTC)
NOW = "2026-11-20T20:00:00Z"
BORN = "2026-11-20T19:50:00Z"
PLATFORM, OPERATOR, PIPELINES = "effectively-once", "effectively-once-operator", "effectively-once-pipelines"
PASSWORD = "p4ss-W0rd/of+the=store"

OUTPUT: dict[str, Any] = {
    "profile": "laptop",
    "namespaces": {"platform": PLATFORM, "operator": OPERATOR, "pipelines": PIPELINES},
    "kafka": {"bootstrap": f"kafka.{PLATFORM}.svc:9092", "external_bootstrap": "127.0.0.1:12092"},
    "object_store": {
        "endpoint": f"http://minio.{PLATFORM}.svc:9000",
        "external_endpoint": "http://127.0.0.1:12000",
        "external_console": "http://127.0.0.1:12001",
        "secret": "object-store-credentials",
        "secret_namespace": PIPELINES,
    },
    "result_store": {
        "endpoint": f"postgresql://postgres.{PLATFORM}.svc:5432/results",
        "secret": "postgres-credentials",
        "secret_namespace": PLATFORM,
    },
    "history_server": {"external_url": "http://127.0.0.1:12080"},
    "pipelines": {
        # Named as in the settings; its objects cannot have an underscore.
        "user_counts": {
            "name": "user-counts",
            "module": "effectively_once_jobs.user_counts",
            "executors": {"count": 2, "memoryMib": 640},
            "settings": {"pipeline": "user_counts", "s3_bucket": "counts-bucket"},
        }
    },
    "images": {"spark": "effectively-once-spark:abc"},
}


def output(**changes: Any) -> str:
    """What `pulumi stack output --json` prints, with changes to `platform`."""
    return json.dumps({"platform": {**OUTPUT, **changes}})


def platform(**changes: Any) -> Platform:
    return parse_platform(output(**changes))


def meta(name: str, namespace: str, **labels: str) -> dict[str, Any]:
    named = {key.replace("__", "/"): value for key, value in labels.items()}
    return {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": named, "creationTimestamp": BORN}


def container(name: str, **fields: Any) -> dict[str, Any]:
    """The status of a container that runs and is ready, but for `fields`."""
    running = {
        "name": name,
        "image": f"{name}:1",
        "ready": True,
        "started": True,
        "restartCount": 0,
        "containerID": f"containerd://{name}",
        "state": {"running": {"startedAt": BORN}},
        "lastState": {},
    }
    return {**running, **fields}


def pod(
    name: str, namespace: str, labels: dict[str, str], *containers: dict[str, Any], **status: Any
) -> dict[str, Any]:
    """A pod, ready unless its containers or `status` say otherwise."""
    containers = containers or (container("main"),)
    ready = all(one["ready"] for one in containers)
    return {
        "metadata": {**meta(name, namespace), "labels": labels},
        "spec": {"nodeName": "node-1", "containers": [{"name": one["name"]} for one in containers]},
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": "PodScheduled", "status": "True"},
                {"type": "Ready", "status": str(ready), "reason": "" if ready else "ContainersNotReady"},
            ],
            "containerStatuses": list(containers),
            **status,
        },
    }


def waiting(reason: str, message: str = "", **fields: Any) -> dict[str, Any]:
    return container("main", ready=False, state={"waiting": {"reason": reason, "message": message}}, **fields)


def exited(code: int, reason: str = "Error") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "finishedAt": BORN}}


def event(kind: str, name: str, namespace: str, reason: str, message: str, **fields: Any) -> dict[str, Any]:
    about = {"kind": kind, "name": name, "namespace": namespace}
    return {
        "metadata": {"name": f"{name}.{reason}", "namespace": namespace},
        "involvedObject": about,
        "type": "Warning",
        "reason": reason,
        "message": message,
        "lastTimestamp": "2026-11-20T19:59:00Z",
        **fields,
    }


def secret(name: str, namespace: str, **data: str) -> dict[str, Any]:
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    return {"metadata": meta(name, namespace), "type": "Opaque", "data": encoded}


def component(name: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "effectively-once"}


def spark(role: str, **more: str) -> dict[str, str]:
    return {"sparkoperator.k8s.io/app-name": "user-counts", "spark-role": role, **more}


def application(state: str = "RUNNING", message: str = "", *, name: str = "user-counts", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": meta(name, PIPELINES),
        "spec": {"executor": {"instances": 2}, **spec},
        "status": {
            "applicationState": {"state": state, "errorMessage": message},
            "driverInfo": {
                "podName": "user-counts-driver",
                "webUIServiceName": "user-counts-ui-svc",
                "webUIPort": 4040,
            },
            "executionAttempts": 1,
        },
    }


class Cluster:
    """Objects by path; `Cluster().ready()` has everything the output names, all of it ready."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}
        self.logs: dict[tuple[str, str, bool], str] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []

    def ready(self) -> Cluster:
        conditions = [{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "False"}]
        self.put("/api/v1/nodes", {"metadata": meta("node-1", ""), "status": {"conditions": conditions}})
        self.objects["/version"] = {"gitVersion": "v1.36.3"}
        for name in (PLATFORM, OPERATOR, PIPELINES):
            self.objects[f"/api/v1/namespaces/{name}"] = {"status": {"phase": "Active"}}
            for kind in ("pods", "events", "secrets"):
                self.objects[f"/api/v1/namespaces/{name}/{kind}"] = {"items": []}
            for kind in ("statefulsets", "deployments"):
                self.objects[f"/apis/apps/v1/namespaces/{name}/{kind}"] = {"items": []}
        for name in ("kafka", "minio", "postgres"):
            self._workload("statefulsets", PLATFORM, name, f"{name}-0")
        self._workload("deployments", PLATFORM, "history-server", "history-server-7d9-x")
        self._workload("deployments", OPERATOR, "spark-operator", "spark-operator-5c4-y")
        self.put(self.applications, application())
        self.put_pod(pod("user-counts-driver", PIPELINES, spark("driver"), container("spark-kubernetes-driver")))
        for number in ("1", "2"):
            labels = spark("executor", **{"spark-exec-id": number})
            self.put_pod(pod(f"user-counts-exec-{number}", PIPELINES, labels, container("spark-kubernetes-executor")))
        keys = {"AWS_ACCESS_KEY_ID": "effectively-once", "AWS_SECRET_ACCESS_KEY": PASSWORD}
        self.put_secret(secret("object-store-credentials", PIPELINES, **keys))
        self.put_secret(
            secret("postgres-credentials", PLATFORM, username="effectively_once", password="another-S3cret")
        )
        return self

    applications = f"/apis/sparkoperator.k8s.io/v1beta2/namespaces/{PIPELINES}/sparkapplications"

    def _workload(self, plural: str, namespace: str, name: str, pod_name: str) -> None:
        workload = {"metadata": {**meta(name, namespace), "labels": component(name)}, "spec": {"replicas": 1}}
        self.put(f"/apis/apps/v1/namespaces/{namespace}/{plural}", workload)
        self.put_pod(pod(pod_name, namespace, component(name), container(name)))

    def put(self, path: str, one: dict[str, Any]) -> None:
        """Add an object to a list; one of the same name is replaced."""
        items = self.objects.setdefault(path, {"items": []})["items"]
        items[:] = [there for there in items if there["metadata"]["name"] != one["metadata"]["name"]] + [one]

    def put_pod(self, one: dict[str, Any]) -> None:
        self.put(f"/api/v1/namespaces/{one['metadata']['namespace']}/pods", one)

    def put_event(self, one: dict[str, Any]) -> None:
        self.put(f"/api/v1/namespaces/{one['metadata']['namespace']}/events", one)

    def put_secret(self, one: dict[str, Any]) -> None:
        path = f"/api/v1/namespaces/{one['metadata']['namespace']}/secrets"
        self.put(path, one)
        self.objects[f"{path}/{one['metadata']['name']}"] = one

    def remove(self, path: str, name: str) -> None:
        items = self.objects[path]["items"]
        items[:] = [one for one in items if one["metadata"]["name"] != name]

    def get(self, path: str, **query: str) -> dict[str, Any]:
        self.asked.append((path, query))
        found = self.objects.get(path)
        if isinstance(found, Exception):
            raise found
        if found is None:
            raise ApiError(404, "not found", path)
        found = copy.deepcopy(found)
        wanted = dict(pair.split("=", 1) for pair in query.get("labelSelector", "").split(",") if pair)
        if wanted:
            found["items"] = [one for one in found["items"] if wanted.items() <= one["metadata"]["labels"].items()]
        return dict(found)

    def text(self, path: str, **query: str) -> str:
        self.asked.append((path, query))
        if path in self.objects:
            if isinstance(self.objects[path], Exception):
                raise self.objects[path]
            return json.dumps(self.objects[path])
        name = path.removesuffix("/log").rsplit("/", 1)[-1]
        try:
            return self.logs[name, query.get("container", ""), query.get("previous") == "true"]
        except KeyError:
            raise ApiError(400, "previous terminated container not found", path) from None

    def follow(self, path: str, **query: str) -> Lines:
        return _Lines(self.text(path, **query).splitlines())


class _Lines:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def close(self) -> None:
        self._lines = []


def access(cluster: Cluster, **changes: Any) -> Access:
    """Access to a written-down cluster."""
    found = Access(Path("/state/kubeconfig"), None, platform(**changes), {}, "laptop")
    found.__dict__["api"] = cluster  # what the cached property would have made
    return found


def rows_of(cluster: Cluster, **changes: Any) -> dict[str, Row]:
    """Return the rows of `make status`, by component."""
    described = platform(**changes)
    return {one.component: one for one in rows(described, gather(cluster, described, AT))}
