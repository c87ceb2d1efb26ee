"""Who talks to whom on a cluster: the pods of a role, the addresses by which they are reached, and their networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.harness.adapters.cluster import label_of
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.pod_log import DRIVER, EXECUTOR
from tests.harness.adapters.pod_network import Address, Netns, PodNetwork, endpoint_addresses, service_addresses
from tests.harness.adapters.server_pods import ServerPods, server_pod
from tests.harness.adapters.supervised_pods import SupervisedPods

API_SERVER = "API server"
API_NAMESPACE, API_SERVICE = "default", "kubernetes"
SLICES = f"/apis/discovery.k8s.io/v1/namespaces/{API_NAMESPACE}/endpointslices"


@dataclass(frozen=True)
class Party:
    """One pod at an end of a cut.

    Attributes:
        role: `executor`, `broker`.
        who: as history names it.
        name: of the pod.
        uid: of the pod.
        addresses: by which others reach it.
        node: where it is.
        container_id: of its container.
        netns: its network; None as long as nobody has asked for it.
    """

    role: str
    who: str
    name: str
    uid: str
    addresses: tuple[Address, ...]
    node: str
    container_id: str
    netns: Netns | None = None


@dataclass(frozen=True)
class Parties:
    """Finds them.

    Attributes:
        drivers: of the pipeline, with their executors.
        servers: by role.
        network: of the pods.
    """

    drivers: SupervisedPods
    servers: Mapping[str, ServerPods]
    network: PodNetwork

    def of(self, role: str) -> list[Party]:
        """The parties of a role that are there, by name.

        Raises:
            NoProcessError: there is none.
            ApiError, UnreachableError: the API server does not answer.
        """
        found = self._of_pipeline(role) if role in (DRIVER, EXECUTOR) else self._of_server(role)
        if not found:
            raise NoProcessError(f"no {role} runs")
        return sorted(found, key=lambda one: one.name)

    def locate(self, party: Party) -> Party:
        """The same with its network. Raises NoProcessError, EngineError."""
        return replace(party, netns=self.network.of(party.node, party.container_id))

    def runs(self, party: Party) -> bool:
        """Whether a party of the pipeline runs, as far as is known."""
        pod = self.drivers.log.pod(party.uid)
        return pod is not None and pod.runs

    def _of_pipeline(self, role: str) -> list[Party]:
        cluster, drivers = self.drivers.cluster, self.drivers
        alive = {drivers.running().uid} if role == DRIVER else {one.uid for one in drivers.log.pods(role) if one.runs}
        selector = f"{label_of(drivers.run)},sparkoperator.k8s.io/app-name={drivers.name},spark-role={role}"
        pods = [one for one in cluster.pods(selector) if one["metadata"]["uid"] in alive]
        services = cluster.reader.get(f"/api/v1/namespaces/{cluster.namespace}/services")["items"]
        return [self._party(role, one, service_addresses(one, services)) for one in pods]

    def _of_server(self, role: str) -> list[Party]:
        server = self.servers[role]
        cluster, ready = server.cluster, {one.uid for one in server.ready()}
        pods = [one for one in cluster.pods(server.selector) if one["metadata"]["uid"] in ready]
        if role == API_SERVER:
            # It has the network of its node, where others serve too: only its own port is meant.
            service = cluster.reader.get(f"/api/v1/namespaces/{API_NAMESPACE}/services/{API_SERVICE}")
            slices = cluster.reader.get(SLICES, labelSelector=f"kubernetes.io/service-name={API_SERVICE}")["items"]
            return [self._party(role, one, endpoint_addresses(service, slices)) for one in pods]
        services = cluster.reader.get(f"/api/v1/namespaces/{cluster.namespace}/services")["items"]
        return [self._party(role, one, service_addresses(one, services)) for one in pods]

    def _party(self, role: str, told: Mapping[str, Any], addresses: Sequence[Address]) -> Party:
        pod = server_pod(told)
        who = f"{pod.name}@{pod.uid}" if role in (DRIVER, EXECUTOR) else pod.who
        return Party(role, who, pod.name, pod.uid, tuple(addresses), pod.node, pod.container_id)
