"""A small HTTP service beside a pipeline in pods: a pod of its own, run by the Python of the pipeline's image."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import urllib3

from infra.embedded.ports import HOST
from tests.harness.adapters.cluster import Cluster, ClusterTimeoutError
from tests.harness.adapters.rendering import RUN_LABEL, Object
from tests.harness.adapters.tunnel import Far, Tunnel

PORT, START_S, ANSWER_S = 8080, 120.0, 10.0
NAME = "app.kubernetes.io/name"
PART_OF = {"app.kubernetes.io/part-of": "effectively-once"}
"""Whom the platform's servers let in."""


@dataclass
class ServicePod:
    """One pod, reached by a tunnel.

    Attributes:
        cluster: the namespace of the pipeline.
        name: of the pod, and of whatever else it needs.
        run: label of everything that belongs to the run, which deletes it.
    """

    cluster: Cluster
    name: str
    run: str
    _tunnel: Tunnel = field(init=False)
    _ip: str = ""

    def __post_init__(self) -> None:
        self._tunnel = Tunnel(self._dial)

    @property
    def labels(self) -> dict[str, str]:
        """Of the pod, and of whatever else it needs."""
        return {NAME: self.name, RUN_LABEL: self.run, **PART_OF}

    @property
    def inside(self) -> str:
        """Base URL, as pods reach it."""
        return f"http://{self._ip}:{PORT}"

    @property
    def address(self) -> str:
        """Base URL, as this machine reaches it."""
        return f"http://{HOST}:{self._tunnel.port}"

    def start(self, objects: Sequence[Object], answers: Callable[[], bool]) -> None:
        """Make the objects, the pod among them, and return when it answers as it should.

        Raises:
            ClusterTimeoutError: it does not.
        """
        self.cluster.apply(objects)
        self._tunnel.start()

        def up() -> bool:
            self._ip = str(self._status().get("podIP") or "")
            with suppress(ClusterTimeoutError):
                return bool(self._ip and answers())
            return False

        self.cluster.wait_for(f"pod {self.name}", up, START_S, lambda: [self._status(), self._tunnel.trouble])

    def ask(self, path: str) -> tuple[int, bytes]:
        """Status and body of its answer to a GET. Raises ClusterTimeoutError: there is none."""
        try:
            with urllib3.PoolManager(retries=False, timeout=ANSWER_S) as http:
                answer = http.request("GET", self.address + path)
        except urllib3.exceptions.HTTPError as error:
            raise ClusterTimeoutError(f"pod {self.name} does not answer: {error} {self._tunnel.trouble}") from error
        return answer.status, answer.data

    def stop(self) -> None:
        """End it, with what led to it. Safe to repeat."""
        self._tunnel.stop()
        self.cluster.delete_labelled(f"{RUN_LABEL}={self.run},{NAME}={self.name}")

    def _status(self) -> dict[str, Any]:
        found = self.cluster.pods(f"{RUN_LABEL}={self.run},{NAME}={self.name}")
        status: dict[str, Any] = found[0].get("status") or {} if found else {}
        return status

    def _dial(self) -> Far:
        return self.cluster.dial(self.name, PORT)


def pod(
    name: str, labels: Mapping[str, str], container: Mapping[str, Any], volumes: Sequence[Mapping[str, Any]] = ()
) -> Object:
    """A pod that may do nothing but serve, and is not started again.

    Args:
        name: of the pod.
        labels: of the pod.
        container: what is its own: image, args (behind `python3`), and what it is given.
        volumes: that the container mounts.
    """
    fixed = {
        "name": "service",
        "imagePullPolicy": "IfNotPresent",
        "command": ["/usr/bin/tini", "--", "python3"],
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 1,
            "containers": [{**fixed, **container}],
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 185,
                "runAsGroup": 185,
                "fsGroup": 185,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "volumes": list(volumes),
        },
    }
