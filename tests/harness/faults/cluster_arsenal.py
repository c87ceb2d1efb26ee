"""Every fault of the cluster: makes the one that a plan names."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.harness.adapters.cluster import Cluster, cordoned_by
from tests.harness.adapters.disk_probes import PLACE
from tests.harness.adapters.drivers import DELETE_GRACEFULLY, DELETE_NOW, SIGKILL
from tests.harness.adapters.events import Watch
from tests.harness.adapters.leaders import Leaders
from tests.harness.adapters.nodes import Nodes
from tests.harness.adapters.spark_requests import Requests
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.cluster_sorts import ZOMBIE
from tests.harness.faults.cluster_cut_arsenal import cut_makers
from tests.harness.faults.cluster_driver import EndedDriver
from tests.harness.faults.cluster_driver_away import AwayDriverPod
from tests.harness.faults.cluster_leader_away import AwayLeader
from tests.harness.faults.cluster_memory import StarvedExecutor
from tests.harness.faults.cluster_platform import Platform
from tests.harness.faults.cluster_stall_arsenal import cluster_stalls
from tests.harness.faults.cluster_zombie import ZombiePod, start_kubelet
from tests.harness.faults.executor import EndedExecutors
from tests.harness.faults.fault import Fault
from tests.harness.faults.healing import Debt
from tests.harness.faults.healing_arsenal import DrawingArsenal, Makers
from tests.harness.faults.lag import Lags
from tests.harness.faults.slow_disk_arsenal import SlowDisks, slow_disks
from tests.harness.faults.slowable import SlowablePod
from tests.harness.faults.spark_request import request_makers
from tests.harness.lag_sorts import AWAY, LEADER_AWAY
from tests.harness.platform_sorts import BROKER, OUT_OF_MEMORY
from tests.harness.schedule import DRIVER, EVERY_EXECUTOR, EXECUTOR
from tests.harness.spread import NETWORK_S

ZOMBIE_S = 180.0


@dataclass
class ClusterArsenal(DrawingArsenal):
    """Faults of a pipeline in pods, and of what it stands on.

    Attributes:
        drivers: and their executors.
        watch: what they announce.
        cluster: where they are.
        platform: what they stand on.
        run: named on what is changed in the cluster.
        zombie_s: how long the driver beside a zombie may take to publish.
        leaders: which brokers lead the pipeline's partitions; None: there is one, or nobody asks.
        network_s: the time-out of heartbeats.
        lags: keeps back what is sent to a partition or by a gateway; None where the sender waits for the chain.
        requests: to the drivers; None where they take none.
        disks: what slows those of servers; None where none can be.
    """

    torn_down = False

    drivers: SupervisedPods
    watch: Watch
    cluster: Cluster
    platform: Platform
    run: str
    zombie_s: float = ZOMBIE_S
    leaders: Leaders | None = None
    network_s: float = NETWORK_S
    lags: Lags | None = None
    requests: Requests | None = None
    disks: SlowDisks | None = None
    _numbers: Iterator[int] = field(default_factory=partial(itertools.count, 1), init=False)
    _rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        """Begin with nothing to heal, and with what the seed draws."""
        super().__post_init__()
        self._rng = random.Random(f"executors of {self.seed}")
        if (disks := self.disks) is not None:
            # The servers outlive the run. One that does not answer keeps no other from being asked.
            for role, probe in disks.probes.items():
                self.healing.owe(Debt(f"delete {PLACE} at the {role}", probe.forget))

    def _makers(self) -> Makers:
        drivers, watch, healing = self.drivers, self.watch, self.healing
        makers: Makers = {(kind, DRIVER): partial(EndedDriver, drivers, watch, kind) for kind in (SIGKILL, DELETE_NOW)}
        for kind in (SIGKILL, DELETE_NOW, DELETE_GRACEFULLY):
            makers[kind, EXECUTOR] = partial(EndedExecutors, drivers, kind, everyone=False)
            makers[kind, EVERY_EXECUTOR] = partial(EndedExecutors, drivers, kind, everyone=True)
        if (nodes := self.platform.nodes) is not None:
            makers[ZOMBIE, DRIVER] = partial(
                ZombiePod,
                drivers,
                watch,
                self.cluster,
                nodes,
                run=self.run,
                longest_s=self.zombie_s,
                healing=healing,
                say=self.say,
            )
            makers |= cut_makers(
                drivers,
                self.platform.servers,
                nodes,
                run=self.run,
                drawn=self._drawn_cuts,
                numbers=self._numbers,
                healing=healing,
                whole=self.platform.whole(self.leaders),
            )
        makers |= self._of_lags()
        platform = self.platform.makers(drivers, watch, healing, self.leaders, self.run)
        stalls = cluster_stalls(drivers, watch, self.platform, healing, leaders=self.leaders, time_out_s=self.network_s)
        requests = request_makers(self.requests, drivers)
        if (disks := self.disks) is not None:
            picks, servers = self.platform.picks(self.leaders), self.platform.servers.items()
            pods = {role: SlowablePod(server, picks.get(role), healing.ended) for role, server in servers}
            makers |= slow_disks(disks, drivers, pods, healing=healing)
        return {**makers, **platform, **stalls, **requests, (OUT_OF_MEMORY, EXECUTOR): self._starvation}

    def _of_lags(self) -> Makers:
        if (lags := self.lags) is None:
            return {}
        makers: Makers = {(AWAY, DRIVER): partial(AwayDriverPod, self.drivers, self.watch, self.healing)}
        brokers = self.platform.servers.get(BROKER)
        if (leaders := self.leaders) is not None and brokers is not None:
            owed: dict[str, Any] = {"time_out_s": self.network_s, "healing": self.healing}
            makers[LEADER_AWAY, BROKER] = partial(AwayLeader, self.drivers, leaders, brokers, **owed)
        return {**makers, **lags.makers(self.healing)}

    def _starvation(self) -> Fault:
        return StarvedExecutor(self.drivers, ended=self.healing.ended, of=self._rng.randrange(1 << 16))


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
