"""What NetworkPolicies let through, as Kubernetes defines it (networking.k8s.io/v1).

A pod that no policy selects is open; a selected one takes, or begins, what a rule of any policy opens. Nothing is known
of nodes: what a pod exchanges with its own node (probes, forwarded ports) no policy can refuse. Every field that is not
known here is an error, so that none is passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from ipaddress import ip_address, ip_network
from typing import Any, Final

Object = dict[str, Any]
Asked = tuple[int, str]
"""A port and its protocol."""
INGRESS, EGRESS = "ingress", "egress"
PEERS: Final = {INGRESS: "from", EGRESS: "to"}


class UnknownError(Exception):
    """A policy says something that this module does not understand."""


@dataclass(frozen=True)
class Endpoint:
    """A pod, or an address that is none: that has no namespace.

    Attributes:
        kind: what the table of flows calls it.
        ip: its address; blocks of addresses may match pods too, so pods have one.
        marks: conditions of flows that hold for it.
    """

    kind: str
    ip: str
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    owner: str = ""
    marks: frozenset[str] = frozenset()

    def __str__(self) -> str:
        """Say who it is."""
        return f"{self.kind} of {self.owner or self.namespace or 'nobody'} ({self.ip})"


def isolated(policies: Iterable[Object], pod: Endpoint, way: str) -> list[Object]:
    """Return the policies that close a pod in one direction; whatever has no namespace is no pod."""
    return [one for one in policies if way.title() in one["spec"]["policyTypes"] and selects(one, pod)]


def selects(policy: Object, pod: Endpoint) -> bool:
    """Return whether a policy is about a pod."""
    _known(policy["spec"], {"podSelector", "policyTypes", *PEERS})
    _known({way: 0 for way in PEERS if way in policy["spec"]}, {one.lower() for one in policy["spec"]["policyTypes"]})
    return policy["metadata"]["namespace"] == pod.namespace and _matches(policy["spec"]["podSelector"], pod.labels)


def opened(closing: list[Object], way: str, peer: Endpoint, asked: Iterable[Asked]) -> set[Asked]:
    """Return those ports that a pod which these policies close in a direction has open to a peer; without any, all."""
    named = {*asked}
    rules = [(rule, one["metadata"]["namespace"]) for one in closing for rule in one["spec"].get(way) or ()]
    found: set[Asked] = set().union(*(_opens(rule, way, namespace, peer, named) for rule, namespace in rules))
    return found if closing else named


def allowed(policies: list[Object], source: Endpoint, target: Endpoint, port: int, protocol: str = "TCP") -> bool:
    """Return whether a connection comes about: the source may begin it, and the target may take it."""
    sides = ((EGRESS, source, target), (INGRESS, target, source))
    return all(opened(isolated(policies, pod, way), way, peer, [(port, protocol)]) for way, pod, peer in sides)


def _opens(rule: Object, way: str, namespace: str, peer: Endpoint, asked: set[Asked]) -> set[Asked]:
    _known(rule, {"ports", PEERS[way]})
    ports, peers = rule.get("ports") or (), rule.get(PEERS[way]) or ()
    for one in ports:
        _known(one, {"port", "protocol"})
    # Without ports all of them, without peers everybody.
    if peers and not any(_is(one, namespace, peer) for one in peers):
        return set()
    return asked & {(one["port"], one["protocol"]) for one in ports} if ports else asked


def _is(wanted: Object, namespace: str, peer: Endpoint) -> bool:
    _known(wanted, {"ipBlock", "namespaceSelector", "podSelector"})
    if "ipBlock" in wanted:
        _known(wanted, {"ipBlock"})
        return _lies_in(wanted["ipBlock"], peer.ip)
    if not peer.namespace:
        return False
    if "namespaceSelector" in wanted:
        named = {"kubernetes.io/metadata.name": peer.namespace}
        if not _matches(wanted["namespaceSelector"], named):
            return False
    elif peer.namespace != namespace:
        return False
    return _matches(wanted.get("podSelector", {}), peer.labels)


def _lies_in(block: Object, ip: str) -> bool:
    _known(block, {"cidr", "except"})
    whole, parts = _network(block["cidr"]), [_network(one) for one in block.get("except", ())]
    # The API server refuses others.
    assert all(one.version == whole.version and one != whole and one.subnet_of(whole) for one in parts), block
    address = _address(ip)
    return address in whole and not any(address in one for one in parts)


@cache
def _network(text: str) -> Any:
    return ip_network(text)


@cache
def _address(text: str) -> Any:
    return ip_address(text)


def _matches(selector: Object, labels: Mapping[str, str]) -> bool:
    _known(selector, {"matchLabels", "matchExpressions"})
    for one in selector.get("matchExpressions", ()):
        _known({one["operator"]: 0}, {"NotIn"})
        if labels.get(one["key"]) in one["values"]:
            return False
    wanted: dict[str, str] = selector.get("matchLabels", {})
    return wanted.items() <= labels.items()


def _known(found: Mapping[str, Any], fields: set[str]) -> None:
    if unknown := sorted(found.keys() - fields):
        raise UnknownError(f"nothing is known of {', '.join(unknown)}")
