"""A driver in a pod as a zombie: on a node that no longer hears of the cluster, while another one has its place."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

from tests.harness.adapters.armed import STOP_ALL
from tests.harness.adapters.cluster import ready
from tests.harness.adapters.drivers import SIGKILL, NoProcessError, Struck
from tests.harness.adapters.events import Watch
from tests.harness.adapters.pod_log import Pod, driver_name
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.faults.cluster_driver import find_successor
from tests.harness.faults.driver import SAYS, STALE
from tests.harness.faults.fault import Lasting
from tests.harness.faults.healing import SPARE_S, Debt, Healing

POLL_S, RENEW_S = 0.5, 5.0
"""A node whose lease nobody renews is given up after 50 s, or 40 s."""
REFUSED_S, READY_S = 60.0, 60.0
"""A driver that was replaced looks at head every other second; kubelet and API server agree again in some 10 s."""
LINES = 200

# The processes of a pod, whichever way kubelet writes its uid into the names of control groups. That of the sandbox is
# left out: it never ends by itself.
PROCESSES = """
for file in $(grep -lsE 'pod({uid}|{slice})' /proc/[0-9]*/cgroup); do
  folder=${{file%/cgroup}} name=pause
  {{ read -r name < "$folder/comm"; }} 2>/dev/null
  if [ "$name" != pause ]; then echo "${{folder##*/}}"; fi
done
"""
# The node takes its kubelet back by itself, whatever becomes of this process.
GIVE_BACK = "effectively-once-give-back"
LOG = "tail -q -n {lines} /var/log/pods/{namespace}_{pod}_{uid}/*/*.log 2>/dev/null || true"


class Nodes(Protocol):
    """The nodes of a cluster as machines (tests.harness.adapters.nodes.Nodes)."""

    def execute(self, node: str, *words: str) -> str:
        """Run a command on a node; what it printed. Raises when it fails."""


class Cordons(Protocol):
    """The nodes of a cluster as the API has them (tests.harness.adapters.cluster.Cluster)."""

    namespace: str

    def cordon(self, node: str, run: str | None) -> None:
        """Have a node take no new pods; None: again."""

    def node(self, name: str) -> dict[str, Any]:
        """The node's object."""

    def renew(self, node: str) -> None:
        """Say in the node's place that it is there."""

    def delete_pod(self, name: str, uid: str, grace_s: int | None) -> int:
        """Delete that very pod; when it was asked for. Raises NoProcessError when it is gone."""


class ZombiePod(Lasting):
    """A driver stands still on a node whose kubelet is stopped; the cluster gives its pod up and starts another.

    The node is closed to new pods, its kubelet stopped and the pod deleted by force, so that the API knows nothing of
    processes that live on. When the driver on another node has published, the first one is woken, and has to end by
    its own account; only then is the kubelet started, which would kill it. Meanwhile the node's lease is renewed in
    its place: else broker and object store, which may be on it, would be taken out of their services, and neither
    driver could do anything.

    Args:
        drivers: whose driver.
        watch: what is announced.
        cluster: closes the node, deletes the pod.
        nodes: reaches the node behind the cluster's back.
        run: named on the node that is closed.
        longest_s: how long the other driver may take to publish; the first one is woken then at the latest.
        healing: wakes it, starts the kubelet and opens the node whatever happens.
        say: told what did not come in time.
    """

    wants_records = True

    def __init__(
        self,
        drivers: SupervisedPods,
        watch: Watch,
        cluster: Cordons,
        nodes: Nodes,
        *,
        run: str,
        longest_s: float,
        healing: Healing,
        say: Callable[[str], None],
    ) -> None:
        super().__init__(healing, longest_s)
        self._drivers, self._watch, self._cluster, self._nodes = drivers, watch, cluster, nodes
        self._run, self._say = run, say
        self._zombie: Pod
        self._struck: Struck
        self._epoch = 0
        self._debts: list[Debt] = []
        self._alone = False
        self._back = threading.Event()
        self._refusal: str | None = None

    def arm(self) -> None:
        self._drivers.arm_driver(SIGKILL, STOP_ALL)

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        pod = self._zombie = self._drivers.running()
        self._epoch = event["epoch"]
        self._debt = Debt(f"continue driver {driver_name(pod)} on node {pod.node}", self._continue)
        self._struck = self._healing.strike(self._debt, lambda: self._drivers.stop_driver(pod, STOP_ALL))
        return [self._struck]

    def endure(self) -> None:
        pod, node = self._zombie, self._zombie.node
        self._owe(f"open node {node} for pods again", lambda: self._cluster.cordon(node, None))
        self._cluster.cordon(node, self._run)
        self._owe(f"start the kubelet of node {node}", self._start_kubelet)
        latest_s = math.ceil(self._seconds + REFUSED_S + SPARE_S)
        later = ("systemd-run", "--quiet", "--collect", f"--unit={GIVE_BACK}", f"--on-active={latest_s}")
        self._nodes.execute(node, *later, "systemctl", "start", "kubelet")
        self._nodes.execute(node, "systemctl", "stop", "kubelet")
        threading.Thread(target=self._renew, name="lease", daemon=True).start()
        # Whoever deleted it before did what is wanted here.
        with suppress(NoProcessError):
            self._cluster.delete_pod(pod.name, pod.uid, 0)
        self._alone = True
        self._watch.wait_for(
            "the driver beside the zombie to publish",
            lambda: self._healing.ended.is_set() or self._followed(),
            self._seconds,
            self._drivers.alive,
        )

    def heal(self) -> None:
        """Wake it, see how it ends, and give its node back to the cluster. Safe to repeat."""
        super().heal()
        if self._alone:
            self._alone = False
            if self._gone_within(REFUSED_S):
                self._refusal = refusal(self._log())
            elif not self._healing.ended.is_set():
                self._say(f"✗ zombie {driver_name(self._zombie)} lives on {REFUSED_S:.0f} s after it was woken")
        self._pay()

    def after(self) -> list[str]:
        return find_successor(self._drivers, self._watch, *self._struck)

    def evidence(self) -> dict[str, Any]:
        return {"stopped_s": self._debt.lasted_s, "refusal": self._refusal}

    def _followed(self) -> bool:
        """Whether another driver published, or took over where the epoch was done when this one was stopped."""
        at = self._struck[1]
        epochs = self._watch.find_announced("epoch", 0, state="published")
        if any(one["t"] >= at and one["driver"] != driver_name(self._zombie) for one in epochs):
            return True
        late = any(one["t"] < at and one["epoch"] == self._epoch for one in epochs)
        return late and bool(self._watch.find_announced("driver", at, state="started"))

    def _owe(self, what: str, undo: Callable[[], None]) -> None:
        self._debts.append(self._healing.owe(Debt(what, undo)))

    def _pay(self) -> None:
        """Undo what is not undone, the last first."""
        while self._debts:
            self._healing.pay(self._debts[-1])
            self._debts.pop()

    def _continue(self) -> None:
        if found := self._processes():
            # Some may end meanwhile.
            self._nodes.execute(self._zombie.node, "sh", "-c", f"kill -CONT {' '.join(found)} || true")

    def _renew(self) -> None:
        """Until the kubelet is started again, which renews it itself."""
        while not self._back.wait(RENEW_S):
            # Once more in a moment: the API server may be busy.
            with suppress(Exception):
                self._cluster.renew(self._zombie.node)

    def _start_kubelet(self) -> None:
        node = self._zombie.node
        start_kubelet(self._nodes, node)
        self._back.set()
        deadline = time.monotonic() + READY_S
        while not ready(self._cluster.node(node)):
            if time.monotonic() > deadline:
                self._say(f"✗ node {node} is not ready {READY_S:.0f} s after the start of its kubelet")
                return
            time.sleep(POLL_S)

    def _gone_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self._processes():
            if time.monotonic() > deadline or self._healing.ended.wait(POLL_S):
                return False
        return True

    def _processes(self) -> list[str]:
        uid = self._zombie.uid
        script = PROCESSES.format(uid=uid, slice=uid.replace("-", "_"))
        return self._nodes.execute(self._zombie.node, "sh", "-c", script).split()

    def _log(self) -> str:
        pod = self._zombie
        command = LOG.format(lines=LINES, namespace=self._cluster.namespace, pod=pod.name, uid=pod.uid)
        return self._nodes.execute(pod.node, "sh", "-c", command)


def start_kubelet(nodes: Nodes, node: str) -> None:
    """Start a node's kubelet that a zombie's fault stopped. Safe to repeat."""
    nodes.execute(node, "systemctl", "start", "kubelet")
    # Later it would start the kubelet in the midst of another fault.
    nodes.execute(node, "sh", "-c", f"systemctl stop {GIVE_BACK}.timer || true")


def refusal(log: str) -> str | None:
    """The named refusal with which a driver ended, from its container's log on the node; None when there is none.

    Args:
        log: lines as the container runtime writes them: time, stream, tag, text.
    """
    told = [text for line in log.splitlines() if STALE in (text := line.split(" ", 3)[-1])]
    return f"its processes ended: {told[-1].strip()[:SAYS]}" if told else None
