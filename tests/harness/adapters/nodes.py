"""The nodes of a kind cluster as machines: what is done inside them through the engine, behind the cluster's back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from infra.cluster import engine as engines
from infra.cluster import network
from infra.cluster.api import Reader
from infra.cluster.engine import EngineError
from infra.cluster.kind import Kind
from infra.cluster.record import Record
from infra.cluster.state import state_directory
from infra.console import Console
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.server_pods import ServerPod, server_pod

CTR = ("ctr", "--namespace", "k8s.io")
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
ENDED = ("Succeeded", "Failed")
# A number is given out again when its process has ended: the control group tells whether it still is the one meant.
# Of several nothing is stopped unless all are there. All in one command: an epoch may end while another one begins.
# The note is there before anything stops: who resumes at once would not find whom to end, and what was to continue
# this fault would continue the next.
STOP = """
for pair in {pairs}; do
  grep -q "${{pair#*:}}" "/proc/${{pair%%:*}}/cgroup" 2>/dev/null || {{ echo "gone ${{pair%%:*}}"; exit 0; }}
done
setsid sh -c '{later}' >/dev/null 2>&1 </dev/null &
tries=0
until [ -s {note} ] || [ "$tries" -eq 500 ]; do tries=$((tries + 1)); sleep 0.01; done
[ -s {note} ] || {{ echo "nothing would continue them"; exit 0; }}
kill -STOP {pids}
for pid in {pids}; do
  tries=0 state=
  while [ "$state" != T ] && [ "$tries" -lt 500 ]; do
    {{ read -r line < "/proc/$pid/stat"; }} 2>/dev/null || break
    line=${{line##*) }}
    state=${{line%% *}} tries=$((tries + 1))
    [ "$state" = T ] || sleep 0.01
  done
  if [ "$state" != T ]; then kill -CONT {pids}; echo "moves $pid"; exit 0; fi
done
echo "stopped"
"""


@dataclass(frozen=True)
class Nodes:
    """The containers that are a kind cluster's nodes; a container and its node have the same name.

    What stands still is continued by the node itself after `at_most_s`, so that a harness that is killed leaves
    nothing behind that lasts.

    Attributes:
        kind: runs commands in them.
        reader: the cluster's API.
        published: whether their image is kind's own, which sees to the pod network by itself.
        notes: folder of a node where it is written down what the node does later.
    """

    kind: Kind
    reader: Reader
    published: bool = False
    notes: str = "/run"

    @classmethod
    def here(cls, reader: Reader, console: Console) -> Nodes | None:
        """Those of the cluster that `make up` made, if its engine runs; None for another cluster."""
        from infra.cluster.lifecycle import Lifecycle  # noqa: PLC0415 - brings what builds images

        record = Record.read(state_directory().record)
        engine = engines.running() if record else None
        if record is None or engine is None:
            return None
        return cls(Lifecycle.here(console).kind(engine), reader, record.published)

    def execute(self, node: str, *words: str) -> str:
        """Run a command on a node; what it printed. Raises EngineError."""
        return self.kind.execute(node, *words)

    def workers(self) -> list[str]:
        """The nodes without a control plane, by name. Raises ApiError, UnreachableError."""
        items = self.reader.get("/api/v1/nodes")["items"]
        return sorted(
            str(one["metadata"]["name"]) for one in items if CONTROL_PLANE not in (one["metadata"].get("labels") or {})
        )

    def pods_on(self, node: str, selector: str) -> list[ServerPod]:
        """Pods with a label, of all namespaces, that are on a node and have not come to their end."""
        asked = {"labelSelector": selector, "fieldSelector": f"spec.nodeName={node}"}
        items = self.reader.get("/api/v1/pods", **asked)["items"]
        return [server_pod(one) for one in items if (one.get("status") or {}).get("phase") not in ENDED]

    def renewed_at(self, node: str) -> str:
        """When a node's kubelet told last that it lives, as the API writes times. Raises ApiError, UnreachableError."""
        lease = self.reader.get(f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node}")
        return str(lease["spec"].get("renewTime", ""))

    def process(self, node: str, container_id: str) -> int:
        """The first process of a container, by its number on the node. Raises NoProcessError when it does not run."""
        for line in self.execute(node, *CTR, "tasks", "ls").splitlines():
            words = line.split()
            if len(words) == 3 and words[0] == container_id and words[2] == "RUNNING":
                return int(words[1])
        raise NoProcessError(f"container {container_id[:12]} does not run on node {node}")

    def stop(self, node: str, containers: Mapping[int, str], at_most_s: float) -> None:
        """SIGSTOP processes of a node, and return when they stand still.

        Args:
            node: where they are.
            containers: the container of each process, by its number.
            at_most_s: after so long the node continues them by itself.

        Raises:
            NoProcessError: one of them has ended, or does not stand still; then none does.
        """
        pids = " ".join(map(str, sorted(containers)))
        pairs = " ".join(f"{pid}:{containers[pid]}" for pid in sorted(containers))
        script = STOP.format(pairs=pairs, pids=pids, note=self._note(pids), later=self._later(at_most_s, pids))
        told = self.execute(node, "sh", "-c", script).strip()
        if told != "stopped":
            raise NoProcessError(f"processes {pids} of node {node} were not stopped: {told or 'no answer'}")

    def resume(self, node: str, containers: Mapping[int, str]) -> None:
        """SIGCONT the processes that `stop` stopped, those that are left. Safe to repeat. Raises EngineError."""
        pids = " ".join(map(str, sorted(containers)))
        note = self._note(pids)
        # What the node was to do by itself is not to come in the middle of the next fault.
        forget = f"if [ -e {note} ]; then kill $(cat {note}); rm -f {note}; fi"
        self.execute(node, "sh", "-c", f"kill -CONT {pids} 2>/dev/null; {forget}; true")

    def started_at(self, node: str) -> str:
        """When a node was started last, as the engine tells it; of one that is down, when that was."""
        return self.kind.engine.run("inspect", "--format", "{{.State.StartedAt}}", node)

    def crash(self, node: str) -> None:
        """End everything on a node at once, as a power failure does. Its disk stays."""
        self.kind.engine.run("kill", node)

    def start(self, node: str) -> None:
        """Start a node, and lay the routes to other nodes' pods, which it forgot. Safe to repeat.

        Raises:
            EngineError: it does not start, or has another address than the one that the cluster knows it by.
        """
        self.kind.engine.run("start", node)
        if self.published:
            return
        known = self.known()
        if known[node].address not in self.execute(node, "hostname", "--all-ip-addresses").split():
            raise EngineError(
                f"node {node} came back without its address {known[node].address}: `make down`, `make up`"
            )
        for words in network.routes(node, known):
            self.execute(node, *words)

    def known(self) -> dict[str, network.Node]:
        """Every node's own address, and the range of its pods' addresses. Raises ApiError, UnreachableError."""
        found = {}
        for one in self.reader.get("/api/v1/nodes")["items"]:
            addresses = one["status"]["addresses"]
            own = next(str(each["address"]) for each in addresses if each["type"] == "InternalIP")
            found[str(one["metadata"]["name"])] = network.Node(own, str(one["spec"].get("podCIDR", "")))
        return found

    def _later(self, seconds: float, pids: str) -> str:
        """What has the node itself continue processes some time from now, whatever becomes of this one."""
        note = self._note(pids)
        return f"echo $$ >{note}; sleep {math.ceil(seconds)}; kill -CONT {pids} 2>/dev/null; rm -f {note}"

    def _note(self, pids: str) -> str:
        return f"{self.notes}/continues-{pids.replace(' ', '-')}"
