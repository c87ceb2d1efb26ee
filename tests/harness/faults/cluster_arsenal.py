"""Every fault of the cluster: makes the one that a plan names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tests.harness.adapters.cluster import Cluster, cordoned_by
from tests.harness.adapters.drivers import DELETE_GRACEFULLY, DELETE_NOW, SIGKILL
from tests.harness.adapters.events import Watch
from tests.harness.adapters.leaders import Leaders
from tests.harness.adapters.nodes import Nodes
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.cluster_sorts import DRIVER, ZOMBIE
from tests.harness.faults.cluster_driver import EndedDriver
from tests.harness.faults.cluster_platform import Platform
from tests.harness.faults.cluster_stall_arsenal import cluster_stalls
from tests.harness.faults.cluster_zombie import ZombiePod, start_kubelet
from tests.harness.faults.executor import EndedExecutors
from tests.harness.faults.healing_arsenal import HealingArsenal, Makers
from tests.harness.schedule import EVERY_EXECUTOR, EXECUTOR

ZOMBIE_S = 180.0


@dataclass
class ClusterArsenal(HealingArsenal):
    """Faults of a pipeline in pods, and of what it stands on.

    Attributes:
        drivers: and their executors.
        watch: what they announce.
        cluster: where they are.
        platform: what they stand on.
        run: named on what is changed in the cluster.
        zombie_s: how long the driver beside a zombie may take to publish.
        leaders: which brokers lead the pipeline's partitions; None: there is one, or nobody asks.
    """

    torn_down = False

    drivers: SupervisedPods
    watch: Watch
    cluster: Cluster
    platform: Platform
    run: str
    zombie_s: float = ZOMBIE_S
    leaders: Leaders | None = None

    def _makers(self) -> Makers:
        drivers, watch, healing, ended = self.drivers, self.watch, self.healing, self.ended
        makers: Makers = {(kind, DRIVER): partial(EndedDriver, drivers, watch, kind) for kind in (SIGKILL, DELETE_NOW)}
        for kind in (SIGKILL, DELETE_NOW, DELETE_GRACEFULLY):
            makers[kind, EXECUTOR] = partial(EndedExecutors, drivers, kind, everyone=False)
            makers[kind, EVERY_EXECUTOR] = partial(EndedExecutors, drivers, kind, everyone=True)
        if (nodes := self.platform.nodes) is not None:
            makers[ZOMBIE, DRIVER] = partial(
                ZombiePod, drivers, watch, self.cluster, nodes, run=self.run, longest_s=self.zombie_s,
                healing=healing, ended=ended, say=self.say,
            )  # fmt: skip
        stalls = cluster_stalls(drivers, watch, self.platform, healing, ended, leaders=self.leaders)
        return {**makers, **self.platform.makers(drivers, watch, healing, ended, self.leaders), **stalls}


def heal_nodes(cluster: Cluster, nodes: Nodes, say: Callable[[str], None]) -> None:
    """Give back the nodes that a run took from the cluster and, killed by SIGKILL, did not live to give back."""
    for name, state in nodes.kind.nodes().items():
        if state != "running":
            nodes.start(name)
            say(f"✓ healed what an earlier run left: node {name} is started again")
    for node in cluster.nodes():
        run = cordoned_by(node)
        if run is not None:
            name = node["metadata"]["name"]
            start_kubelet(nodes, name)
            cluster.cordon(name, None)
            say(f"✓ healed what run {run} left: node {name} has its kubelet and takes pods again")
