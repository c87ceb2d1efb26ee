"""What a pipeline on a cluster stands on, and the faults that it has there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from infra.cluster import platform
from infra.embedded.stack import Endpoints
from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.drivers import DELETE_NOW, SIGKILL
from tests.harness.adapters.events import Watch
from tests.harness.adapters.leaders import Leaders
from tests.harness.adapters.nodes import Nodes
from tests.harness.adapters.server_pods import WORKLOADS, Pick, ServerPods
from tests.harness.adapters.services import Copies, Services, broker_probe, store_probe
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.faults.cluster_control import API_OUTAGE_S, DNS_OUTAGE_S, StoppedControl
from tests.harness.faults.cluster_disk_lost import LostDisk
from tests.harness.faults.cluster_drain import DrainedNode
from tests.harness.faults.cluster_leader import LeadingBroker, MovedLeaders
from tests.harness.faults.cluster_memory import StarvedExecutor
from tests.harness.faults.cluster_node import DOWN_S, RestartedNode
from tests.harness.faults.cluster_operator import OperatorAtSubmission, OperatorWithDriver
from tests.harness.faults.cluster_rollout import RolledServer
from tests.harness.faults.cluster_server import LEAST_GRACE_S, NO_GRACE_S, EndedServerPod
from tests.harness.faults.cluster_stop import StoppedServerPod
from tests.harness.faults.healing import Healing
from tests.harness.faults.healing_arsenal import Makers
from tests.harness.faults.whole import Whole, whole_servers
from tests.harness.platform_sorts import (
    API_SERVER,
    AT_SUBMISSION,
    BROKER,
    CONTROLLER,
    DISK_LOST,
    DNS,
    DRIVER_FIRST,
    LEADER_MOVE,
    NODE,
    NODE_DRAIN,
    NODE_RESTART,
    OBJECT_STORE,
    OPERATOR,
    OPERATOR_FIRST,
    OUT_OF_MEMORY,
    RESULT_STORE,
    ROLLOUT,
    SIGSTOP,
)
from tests.harness.schedule import EXECUTOR

SYSTEM = "kube-system"
DNS_PODS = 2
"""As kubeadm deploys it."""


@dataclass(frozen=True)
class PlatformLengths:
    """How long faults last, in seconds; see Lengths of the embedded stack."""

    broker_stop_s: float = 8.0
    store_stop_s: float = 12.0
    api_outage_s: float = API_OUTAGE_S
    dns_outage_s: float = DNS_OUTAGE_S
    node_down_s: float = DOWN_S


@dataclass(frozen=True)
class Platform:
    """The servers of a stack, as far as they are pods of ours, and its nodes.

    Attributes:
        servers: by role.
        nodes: as machines; None where they cannot be reached.
        lengths: of faults that last.
    """

    servers: Mapping[str, ServerPods]
    nodes: Nodes | None
    lengths: PlatformLengths = field(default_factory=PlatformLengths)

    @classmethod
    def of(cls, kubeconfig: Path, context: str | None, told: platform.Platform, nodes: Nodes | None) -> Platform:
        """What a stack's output tells of.

        Args:
            kubeconfig: file of the cluster's address and credentials.
            context: of the kubeconfig, None for its current one.
            told: the stack's output `platform`.
            nodes: as machines.
        """
        namespaces = told.namespaces
        ours = Cluster(kubeconfig, context, namespaces.platform)
        places = dict.fromkeys(
            (BROKER, CONTROLLER, OBJECT_STORE, *((RESULT_STORE,) if told.result_store else ())), ours
        )
        if namespaces.operator is not None:
            places[OPERATOR] = Cluster(kubeconfig, context, namespaces.operator)
        servers = {role: ServerPods.of(cluster, role) for role, cluster in places.items()}
        # Who brings a broker or a store of their own has no such pod, and no fault of it.
        servers = {role: replace(one, count=count) for role, one in servers.items() if (count := len(one.pods()))}
        if nodes is not None:
            system = Cluster(kubeconfig, context, SYSTEM)
            servers |= {API_SERVER: ServerPods.of(system, API_SERVER), DNS: ServerPods.of(system, DNS, DNS_PODS)}
        return cls(servers, nodes)

    @property
    def brokers(self) -> int:
        """How many are pods of ours."""
        return self.servers[BROKER].count if BROKER in self.servers else 0

    @property
    def copies(self) -> dict[str, int]:
        """How many pods each server has, by role."""
        return {role: one.count for role, one in self.servers.items() if one is not None}

    def picks(self, leaders: Leaders | None) -> dict[str, Pick]:
        """Who chooses one of several pods, by role; of several brokers, `leaders` tells whom."""
        if leaders is None or self.brokers < 2:
            return {}
        return {BROKER: LeadingBroker(leaders, self.servers[BROKER]).pick}

    def makers(
        self,
        drivers: SupervisedPods,
        watch: Watch,
        healing: Healing,
        leaders: Leaders | None = None,
        run: str = "",
    ) -> Makers:
        """Who makes the fault of each kind and target that there is here.

        Args:
            drivers: of the pipeline.
            watch: what they announce.
            healing: undoes what is left.
            leaders: tells whom of several brokers a fault strikes, and which copies of partitions are behind.
            run: named on what is changed in the cluster.
        """
        lengths, servers, makers = self.lengths, self.servers, Makers()
        owed: dict[str, Any] = {"healing": healing}
        picks = self.picks(leaders)
        if leaders is not None and picks:
            makers[LEADER_MOVE, BROKER] = partial(MovedLeaders, leaders, servers[BROKER], **owed)
        for role, grace_s in (
            (BROKER, NO_GRACE_S),
            (OBJECT_STORE, LEAST_GRACE_S),
            (RESULT_STORE, LEAST_GRACE_S),
            (OPERATOR, NO_GRACE_S),
        ):
            if (server := servers.get(role)) is not None:
                how = {**owed, "pick": picks.get(role)}
                makers[SIGKILL, role] = partial(EndedServerPod, server, SIGKILL, **how)
                makers[DELETE_NOW, role] = partial(EndedServerPod, server, DELETE_NOW, grace_s=grace_s, **how)
        for role, seconds in ((BROKER, lengths.broker_stop_s), (OBJECT_STORE, lengths.store_stop_s)):
            if (server := servers.get(role)) is not None:
                makers[SIGSTOP, role] = partial(StoppedServerPod, server, seconds, pick=picks.get(role), **owed)
        if (operator := servers.get(OPERATOR)) is not None:
            for order in (OPERATOR_FIRST, DRIVER_FIRST):
                makers[SIGKILL, order] = partial(OperatorWithDriver, operator, drivers, watch, order, **owed)
            makers[SIGKILL, AT_SUBMISSION] = partial(OperatorAtSubmission, operator, drivers, watch, **owed)
        if (nodes := self.nodes) is not None:
            for role, seconds in ((API_SERVER, lengths.api_outage_s), (DNS, lengths.dns_outage_s)):
                makers[SIGSTOP, role] = partial(StoppedControl, servers[role], nodes, seconds, **owed)
            cluster, down_s = drivers.cluster, lengths.node_down_s
            makers[NODE_RESTART, NODE] = partial(RestartedNode, nodes, cluster, drivers, down_s, **owed)
        makers |= self._of_copies(drivers, run, leaders, healing)
        makers[OUT_OF_MEMORY, EXECUTOR] = partial(StarvedExecutor, drivers, ended=healing.ended)
        return makers

    def services(self, endpoints: Endpoints) -> Services | None:
        """Readings of the servers that have several copies; None where none has."""
        probes = {BROKER: broker_probe, OBJECT_STORE: store_probe}
        several = {
            role: Copies(one, probes[role](endpoints) if role in probes else None)
            for role, one in self.servers.items()
            if role in WORKLOADS and one and one.count > 1
        }
        return Services(several) if several else None

    def whole(self, leaders: Leaders | None) -> dict[str, Whole]:
        """When each server of several copies is whole, by role; `leaders` tells which copies of partitions are not."""
        several = {role: one for role, one in self.servers.items() if role in WORKLOADS and one and one.count > 1}
        return whole_servers(several, leaders)

    def _of_copies(self, drivers: SupervisedPods, run: str, leaders: Leaders | None, healing: Healing) -> Makers:
        """Faults of servers that have several copies, each of which is whole before and after."""
        makers, owed = Makers(), dict[str, Any](healing=healing)
        whole = self.whole(leaders)
        for role, one in whole.items():
            makers[ROLLOUT, role] = partial(RolledServer, one, **owed)
        for role in (BROKER, OBJECT_STORE):
            if role in whole:
                makers[DISK_LOST, role] = partial(LostDisk, whole[role], **owed)
        if self.nodes is not None and whole:
            makers[NODE_DRAIN, NODE] = partial(DrainedNode, self.nodes, drivers, whole, run, **owed)
        return makers
