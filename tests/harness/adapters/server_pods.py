"""A server of the platform as pods: found by label, entered, followed over restarts of its container."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from infra.cluster.api import ClusterError
from tests.harness.adapters.armed import ArmedSignal, Word
from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.drivers import NoProcessError

READY_S = 360.0
"""kubelet starts a container again at once, then after 10 s, 20 s, ... up to 300 s when it ends again and again."""

# The server is the child of PID 1, tini, which is immune to signals from inside.
LOCATE = """
victim=
for folder in /proc/[0-9]*; do
  line=
  {{ read -r line < "$folder/stat"; }} 2>/dev/null
  set -- $line
  if [ "${{2-}}" = "({program})" ] && [ "${{4-}}" = 1 ]; then victim=$1; fi
done
if [ -z "$victim" ]; then echo "no {program}"; exit 1; fi
"""
"""Script that finds a server in its container, or ends."""
FIND = f"""{LOCATE}
echo "armed $victim"
read -r go || exit 1
"""
"""The same, and waits for the word."""
KILL = 'echo "kill $victim"\nkill -9 "$victim"\n'

ROLES = {
    "broker": ("app.kubernetes.io/name=kafka,app.kubernetes.io/component=broker", "java"),
    "controller": ("app.kubernetes.io/name=kafka,app.kubernetes.io/component=controller", "java"),
    "object store": ("app.kubernetes.io/name=minio", "minio"),
    "result store": ("app.kubernetes.io/name=postgres", "postgres"),
    "operator": ("app.kubernetes.io/name=spark-operator", "spark-operator"),
    "API server": ("component=kube-apiserver", "kube-apiserver"),
    "DNS": ("k8s-app=kube-dns", "coredns"),
}
"""Selector and program of each server; the charts say so of the first five, kubeadm of the others (`kube-system`)."""


WORKLOADS = {
    "broker": ("StatefulSet", "kafka"),
    "controller": ("StatefulSet", "kafka-controller"),
    "object store": ("StatefulSet", "minio"),
    "operator": ("Deployment", "spark-operator"),
}
"""What makes the pods of a server anew, of those that can have several; the charts name them."""


@dataclass(frozen=True, slots=True)
class ServerPod:
    """A pod of a server as it was last told.

    Attributes:
        container: the one that the server runs in.
        container_id: of its container now, without the runtime's name; empty before it has begun.
        node: where it is.
        ready: its container runs and its probe succeeds.
        restarts: how often its container was started again.
        ended_as: how its former container ended.
        deleting: its deletion was asked for.
    """

    name: str
    uid: str
    container: str
    container_id: str
    node: str
    ready: bool
    restarts: int = 0
    ended_as: str = ""
    deleting: bool = False

    @property
    def who(self) -> str:
        """Identity in history: a restarted container of the same pod is another one."""
        return f"{self.name}@{self.uid}/{self.container_id[:12]}"


def server_pod(told: Mapping[str, Any]) -> ServerPod:
    """A pod object of the API as what matters here."""
    metadata, spec, status = told["metadata"], told["spec"], told.get("status") or {}
    one: Mapping[str, Any] = next(iter(status.get("containerStatuses") or []), {})
    runs = "running" in (one.get("state") or {})
    ended = (one.get("lastState") or {}).get("terminated") or {}
    reason = f" ({ended['reason']})" if ended.get("reason") else ""
    return ServerPod(
        name=metadata["name"],
        uid=metadata["uid"],
        container=spec["containers"][0]["name"],
        container_id=str(one.get("containerID") or "").rpartition("//")[2],
        node=spec.get("nodeName", ""),
        ready=runs and bool(one.get("ready")),
        restarts=int(one.get("restartCount", 0)),
        ended_as=f"exit code {ended['exitCode']}{reason}" if "exitCode" in ended else "",
        deleting=bool(metadata.get("deletionTimestamp")),
    )


@dataclass(frozen=True, slots=True)
class Picked:
    """The pod to strike; `why` is what history is to tell of why it is this one."""

    pod: ServerPod
    why: Mapping[str, Any] = field(default_factory=dict)


Pick = Callable[[Mapping[str, Any]], Picked]
"""Chooses by what was announced. Raises NoProcessError, ApiError, UnreachableError."""


@dataclass(frozen=True)
class ServerPods:
    """The pods of one server.

    Attributes:
        cluster: the namespace that it is in.
        what: its role, for messages: `broker`.
        selector: label selector of its pods.
        program: its process as the kernel names it, below PID 1.
        count: how many pods there are when all is well.
    """

    cluster: Cluster
    what: str
    selector: str
    program: str
    count: int = 1

    @classmethod
    def of(cls, cluster: Cluster, what: str, count: int = 1) -> Self:
        """Those of a role of ROLES. Raises KeyError."""
        return cls(cluster, what, *ROLES[what], count)

    def pods(self) -> list[ServerPod]:
        """The pods that are to stay, by name. Raises ApiError, UnreachableError."""
        found = [server_pod(one) for one in self.cluster.pods(self.selector)]
        return sorted((one for one in found if not one.deleting), key=lambda one: one.name)

    def ready(self) -> list[ServerPod]:
        """Those that serve. Raises ApiError, UnreachableError."""
        return [one for one in self.pods() if one.ready]

    def chosen(self, event: Mapping[str, Any]) -> ServerPod:
        """The pod to strike: of several, one that the announced shard decides. Raises NoProcessError."""
        there = self.ready()
        if len(there) < self.count:
            raise NoProcessError(f"{len(there)} of {self.count} pods of the {self.what} are ready")
        return there[int(event.get("shard") or 0) % len(there)]

    def picked(self, event: Mapping[str, Any]) -> Picked:
        """The same, as a Pick."""
        return Picked(self.chosen(event))

    def killer(self, pod: ServerPod) -> ArmedSignal:
        """A session in a pod that kills the server at the word. Raises NoProcessError."""
        word = Word(FIND.format(program=self.program) + KILL, "kill")
        return ArmedSignal(self.cluster.enter(pod.name, pod.container, word.script), pod.who, word)

    def describe(self) -> list[str]:
        """The pods for messages; what the API says where it does not tell them."""
        try:
            return [
                f"{one.who}: {'ready' if one.ready else 'not ready'}, {one.restarts} restarts" for one in self.pods()
            ]
        except (ClusterError, OSError) as error:
            return [str(error)]
