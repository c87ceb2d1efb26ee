"""What a run does to a cluster: objects applied and deleted, pods deleted and entered."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import DynamicClient
from kubernetes.stream import portforward, stream

from infra.cluster.api import Api, ApiError
from infra.errors import UserError
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.rendering import RUN_LABEL, Object
from tests.harness.adapters.tunnel import Far

MANAGER = "effectively-once-acceptance"
SPARK = ("sparkoperator.k8s.io/v1beta2", "SparkApplication")
# In the order of deletion: first what makes others anew.
KINDS = (
    SPARK,
    ("batch/v1", "Job"),
    ("v1", "Pod"),
    ("v1", "Service"),
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("v1", "ServiceAccount"),
    # Last: without them the pods that end just now are closed to each other.
    ("networking.k8s.io/v1", "NetworkPolicy"),
)
CORDONED_BY = "effectively-once/cordoned-by"
LEASES = "kube-node-lease"
RESTARTED_AT = "effectively-once/restarted-at"
POLL_S = 0.5
EXEC_S = 15.0


class ClusterTimeoutError(UserError):
    """The cluster did not come to a state in time; the message says which, and what was seen last."""


class Cluster:
    """One namespace of a cluster. Threads may share it."""

    def __init__(self, kubeconfig: Path, context: str | None, namespace: str) -> None:
        self.namespace = namespace
        configuration: Any = client.Configuration()
        load: Any = config.load_kube_config
        load(str(kubeconfig), context=context, persist_config=False, client_configuration=configuration)
        self._configuration = configuration
        self._core: Any = client.CoreV1Api(client.ApiClient(configuration))
        self._leases: Any = client.CoordinationV1Api(client.ApiClient(configuration))
        dynamic: Any = DynamicClient
        self._dynamic: Any = dynamic(client.ApiClient(configuration))
        self.reader = Api(kubeconfig, context)

    def apply(self, objects: Sequence[Object]) -> None:
        """Apply objects on the server's side."""
        for one in objects:
            self._resource(one["apiVersion"], one["kind"]).server_side_apply(
                body=one,
                name=one["metadata"]["name"],
                namespace=self.namespace,
                field_manager=MANAGER,
                force_conflicts=True,
            )

    def delete_labelled(self, selector: str) -> None:
        """Ask for the deletion of everything with a label, whatever of it is there."""
        for api_version, kind in KINDS:
            self._resource(api_version, kind).delete(
                namespace=self.namespace, label_selector=selector, body={"propagationPolicy": "Background"}
            )

    def labelled(self, selector: str) -> list[str]:
        """What there is with a label, as kind/name."""
        found = []
        for api_version, kind in KINDS:
            items = self._resource(api_version, kind).get(namespace=self.namespace, label_selector=selector).items
            found += [f"{kind}/{one.metadata.name}" for one in items]
        return found

    def delete_application(self, name: str) -> None:
        """Delete a SparkApplication, if it is there."""
        try:
            self._spark().delete(name=name, namespace=self.namespace, body={"propagationPolicy": "Background"})
        except ApiException as error:
            if error.status != 404:
                raise

    def application(self, name: str) -> Object | None:
        """A SparkApplication, None when it is not there."""
        try:
            found: Object = self._spark().get(name=name, namespace=self.namespace).to_dict()
        except ApiException as error:
            if error.status != 404:
                raise
            return None
        return found

    def applications(self, selector: str) -> list[Object]:
        """The SparkApplications with a label."""
        found: list[Object] = self._spark().get(namespace=self.namespace, label_selector=selector).to_dict()["items"]
        return found

    def patch_application(self, name: str, change: Object) -> None:
        """Merge a change into a SparkApplication."""
        self._spark().patch(
            name=name, namespace=self.namespace, body=change, content_type="application/merge-patch+json"
        )

    def pods(self, selector: str) -> list[Object]:
        """The pods with a label, as the API tells them."""
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        items: list[Object] = self.reader.get(path, labelSelector=selector)["items"]
        return items

    def replicas(self, kind: str, name: str) -> int:
        """How many pods a StatefulSet or Deployment is to have. Raises ApiError."""
        return int(self._set(kind, name)["spec"]["replicas"])

    def serving(self, kind: str, name: str) -> tuple[int, int]:
        """How many pods a StatefulSet or Deployment has, and how many of them are ready. Raises ApiError."""
        status = self._set(kind, name).get("status") or {}
        return int(status.get("replicas") or 0), int(status.get("readyReplicas") or 0)

    def scale(self, kind: str, name: str, replicas: int) -> None:
        """Have so many pods of a StatefulSet or Deployment; who calls waits until it is so."""
        self._resource("apps/v1", kind).patch(
            name=name,
            namespace=self.namespace,
            body={"spec": {"replicas": replicas}},
            content_type="application/merge-patch+json",
        )

    def restart(self, kind: str, name: str) -> None:
        """Have the pods of a StatefulSet or Deployment replaced as its strategy says; see `rolled`."""
        at = datetime.now(UTC).isoformat()
        self._resource("apps/v1", kind).patch(
            name=name,
            namespace=self.namespace,
            body={"spec": {"template": {"metadata": {"annotations": {RESTARTED_AT: at}}}}},
            content_type="application/merge-patch+json",
        )

    def rolled(self, kind: str, name: str) -> bool:
        """Whether every pod of a StatefulSet or Deployment is of its last template, and ready. Raises ApiError."""
        return is_rolled(self._set(kind, name))

    def evict(self, pod: Object) -> bool:
        """Ask for the eviction of that very pod, which its budget may refuse; whether it was granted.

        Raises:
            ApiException: it was refused for another reason.
        """
        metadata = pod["metadata"]
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
            "deleteOptions": {"preconditions": {"uid": metadata["uid"]}},
        }
        try:
            self._core.create_namespaced_pod_eviction(metadata["name"], metadata["namespace"], body)
        except ApiException as error:
            # 404, 409: this pod is gone, and another one may have its name. 429: its budget.
            if error.status not in (404, 409, 429):
                raise
            return bool(error.status != 429)
        return True

    def claim(self, name: str) -> Object | None:
        """A claim of a volume, None when it is not there. Raises ApiError."""
        try:
            return self.reader.get(f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims/{name}")
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    def delete_claim(self, name: str, uid: str) -> None:
        """Delete that very claim; its volume goes once no pod has it, as its StorageClass says. Raises ApiException."""
        body: Any = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid=uid))
        self._core.delete_namespaced_persistent_volume_claim(name, self.namespace, body=body)

    def config_map(self, name: str) -> dict[str, str]:
        """The entries of a ConfigMap. Raises ApiError."""
        found: dict[str, str] = self.reader.get(f"/api/v1/namespaces/{self.namespace}/configmaps/{name}")["data"]
        return found

    def patch_config_map(self, name: str, entries: Mapping[str, str]) -> None:
        """Change entries of a ConfigMap."""
        self._core.patch_namespaced_config_map(name, self.namespace, {"data": dict(entries)})

    def _set(self, kind: str, name: str) -> Object:
        return self.reader.get(f"/apis/apps/v1/namespaces/{self.namespace}/{kind.lower()}s/{name}")

    def job(self, name: str) -> Object:
        """The status of a job, as the API tells it. Raises ApiError."""
        found = self.reader.get(f"/apis/batch/v1/namespaces/{self.namespace}/jobs/{name}")
        status: Object = found.get("status") or {}
        return status

    def delete_pod(self, name: str, uid: str, grace_s: int | None) -> int:
        """Delete that very pod; when it was asked for, in ms since 1970, as the pod may end before the answer is here.

        Args:
            name: of the pod.
            uid: of the pod.
            grace_s: None leaves it the time it asked for.

        Raises:
            NoProcessError: it is not there any more.
        """
        body: Any = client.V1DeleteOptions(
            preconditions=client.V1Preconditions(uid=uid), grace_period_seconds=grace_s, propagation_policy="Background"
        )
        asked_at = time.time_ns() // 1_000_000
        try:
            self._core.delete_namespaced_pod(name, self.namespace, body=body)
        except ApiException as error:
            if error.status not in (404, 409):
                raise
            raise NoProcessError(f"pod {name} of uid {uid} is gone") from error
        return asked_at

    def enter(self, pod: str, container: str, script: str) -> Any:
        """Run a shell script in a container; the session (kubernetes.stream.ws_client.WSClient). Raises NoProcessError.

        Every session has a client of its own: `stream` changes the one it is given.
        """
        core: Any = client.CoreV1Api(client.ApiClient(self._configuration))
        try:
            return stream(
                core.connect_get_namespaced_pod_exec,
                pod,
                self.namespace,
                container=container,
                command=["sh", "-c", script],
                stdin=True,
                stdout=True,
                stderr=True,
                tty=False,
                _preload_content=False,
                _request_timeout=EXEC_S,
            )
        except ApiException as error:
            raise NoProcessError(f"pod {pod} cannot be entered: {error.status} {error.reason}") from error

    def dial(self, pod: str, port: int) -> Far:
        """A connection to a port of a pod, through the API server. Raises ApiException.

        `portforward` changes the client that it is given, as `stream` does.
        """
        core: Any = client.CoreV1Api(client.ApiClient(self._configuration))
        there: Any = portforward
        ask = core.connect_get_namespaced_pod_portforward
        far: Far = there(ask, pod, self.namespace, ports=str(port)).socket(port)
        return far

    def nodes(self) -> list[Object]:
        """The nodes, as the API tells them."""
        items: list[Object] = self.reader.get("/api/v1/nodes")["items"]
        return items

    def node(self, name: str) -> Object:
        """One node, as the API tells it. Raises ApiError."""
        return self.reader.get(f"/api/v1/nodes/{name}")

    def cordon(self, node: str, run: str | None) -> None:
        """Have a node take no new pods, for a run that is named on it; None opens it again."""
        change = {"metadata": {"annotations": {CORDONED_BY: run}}, "spec": {"unschedulable": True if run else None}}
        self._core.patch_node(node, change)

    def renew(self, node: str) -> None:
        """Say in a node's place that it is there: who does so every few seconds keeps it ready without its kubelet."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        self._leases.patch_namespaced_lease(node, LEASES, {"spec": {"renewTime": now}})

    def wait_for(self, what: str, holds: Callable[[], bool], timeout_s: float, seen: Callable[[], object]) -> None:
        """Ask until `holds()`; raises ClusterTimeoutError with what `seen` says then."""
        deadline = time.monotonic() + timeout_s
        while not holds():
            if time.monotonic() > deadline:
                raise ClusterTimeoutError(
                    f"{what} did not come within {timeout_s:.0f} s; `make status` shows what is not ready; "
                    f"last seen: {_brief(seen())}"
                )
            time.sleep(POLL_S)

    def _spark(self) -> Any:
        return self._resource(*SPARK)

    def _resource(self, api_version: str, kind: str) -> Any:
        return self._dynamic.resources.get(api_version=api_version, kind=kind)


def is_rolled(told: Object) -> bool:
    """Whether every pod of a StatefulSet or Deployment, as the API tells it, is of its last template, and ready."""
    wanted, status = int(told["spec"]["replicas"]), told.get("status") or {}
    if int(status.get("observedGeneration") or 0) < int(told["metadata"]["generation"]):
        return False
    # A StatefulSet tells no updated replicas any more once its last revision is its current one.
    same = status.get("currentRevision") is not None and status["currentRevision"] == status.get("updateRevision")
    updated = wanted if same else int(status.get("updatedReplicas") or 0)
    return updated == wanted == int(status.get("replicas") or 0) == int(status.get("readyReplicas") or 0)


def ready(node: Object) -> bool:
    """Whether a node's kubelet says that all is well with it."""
    conditions = (node.get("status") or {}).get("conditions") or []
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def cordoned_by(node: Object) -> str | None:
    """The run that has a node take no new pods; None where no run does."""
    found = ((node.get("metadata") or {}).get("annotations") or {}).get(CORDONED_BY)
    return str(found) if found else None


def label_of(run: str) -> str:
    """Selector of everything that belongs to a run."""
    return f"{RUN_LABEL}={run}"


def state_of(application: Object | None) -> str:
    """State of a SparkApplication as the operator tells it; empty before it has one, `gone` when it is not there."""
    if application is None:
        return "gone"
    status = application.get("status") or {}
    return str((status.get("applicationState") or {}).get("state") or "")


def failure_of(application: Object | None) -> str:
    """What the operator says about a failure; empty when there is none."""
    status = (application or {}).get("status") or {}
    return str((status.get("applicationState") or {}).get("errorMessage") or "")


def _brief(value: object) -> str:
    return json.dumps(value, default=str)[:1000]
