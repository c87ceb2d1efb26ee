"""What the table of flows means for a deployment, to compare it with what the policies let through."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

from infra.values import flows
from infra.values.flows import FLOWS, WITHIN_A_PIPELINE, Flow
from tests.charts import deployment as deployed
from tests.charts.deployment import Deployment
from tests.charts.policies import EGRESS, INGRESS, Asked, Endpoint, Object, isolated, opened

PORTS: Final = (
    *(22, 80, 443, 4040, 5432, 6443, 7078, 7079, 7080, 8080, 8081),
    *(9000, 9001, 9090, 9092, 9093, 9094, 9095, 9404, 10250, 18080),
)
ASKED: Final[list[Asked]] = [*((port, "TCP") for port in (*PORTS, 53)), *((port, "UDP") for port in (53, 443, 9092))]


@cache
def meant(there: Deployment, way: str, source: Endpoint, target: Endpoint) -> frozenset[Asked]:
    """Return which ports the table has, as one side sees it: that of the target (INGRESS), or of the source (EGRESS).

    Looked up for every pair of pods and every mutant of a policy.
    """
    found = [one for one in FLOWS if _meant(there, one, way, source, target)]
    return frozenset((port, how) for one in found for how in one.protocols for port in one.ports or (8080,))


def _meant(there: Deployment, flow: Flow, way: str, source: Endpoint, target: Endpoint) -> bool:
    # What a pipeline itself has or has not, its own pods are held to, and not the server that they do not go to.
    own = {flows.TABLES, flows.EGRESS}
    if flow.when and flow.when not in there.marks | source.marks and not (flow.when in own and way == INGRESS):
        return False
    if flow.target in WITHIN_A_PIPELINE and {*flow.sources} <= {*WITHIN_A_PIPELINE}:
        return (source.kind, target.kind, target.owner) in {(kind, flow.target, source.owner) for kind in flow.sources}
    return _begins(flow, way, source) and _takes(there, flow, way, target)


def _begins(flow: Flow, way: str, source: Endpoint) -> bool:
    """Whether a flow is of a source. "Anybody" is whom a target lets in: a pod of ours has to be named to begin it."""
    everybody = {flows.ANYBODY: way == INGRESS, flows.ANY_POD: way == INGRESS and bool(source.namespace)}
    return source.kind in flow.sources or any(everybody.get(one, False) for one in flow.sources)


def _takes(there: Deployment, flow: Flow, way: str, target: Endpoint) -> bool:
    if way == EGRESS and flow.target == flows.API_SERVER and flows.VIEWERS not in there.marks:
        # Nobody knows its address: anywhere, but for the metadata of clouds, in whose range a cache of names is too.
        return target.kind != deployed.METADATA_ADDRESS and not target.ip.startswith("169.254.")
    return target.kind == flow.target


def wrong(there: Deployment, policies: list[Object], about: Callable[[Endpoint], bool]) -> Iterator[str]:
    """Yield each connection of a pod that the table and the policies do not agree on, on its side."""
    for pod in filter(about, there.ours):
        for way in (EGRESS, INGRESS):
            closing = isolated(policies, pod, way)
            for peer in there.endpoints:
                source, target = (pod, peer) if way == EGRESS else (peer, pod)
                if pod is not peer:
                    is_open = opened(closing, way, peer, ASKED)
                    for asked in sorted(is_open ^ meant(there, way, source, target) & {*ASKED}):
                        said = "open, and not in the table" if asked in is_open else "in the table, and closed"
                        yield f"{way}: {source} -> {target} {asked}: {said}"


def pairs(there: Deployment, flow: Flow) -> Iterator[tuple[Endpoint, Endpoint]]:
    """Yield who connects to whom by a flow that the deployment has."""
    for source in there.endpoints:
        named = source.kind in flow.sources or (not source.owner and _begins(flow, INGRESS, source))
        if named and (not flow.when or flow.when in there.marks | source.marks):
            for target in there.endpoints:
                within = {source.kind, target.kind} <= {*WITHIN_A_PIPELINE}
                if (
                    target.kind == flow.target
                    and target is not source
                    and not (within and source.owner != target.owner)
                ):
                    yield source, target
