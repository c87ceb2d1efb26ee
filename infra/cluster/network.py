"""The pod network of our own nodes: a bridge each, and a static route to every other node's pods."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infra.cluster.engine import EngineError
from infra.cluster.kind import Kind, pod_network
from infra.cluster.kubectl import Kubectl
from infra.console import Console

RANGES_S, READY_S = 60.0, 180.0
CONFLIST = "/etc/cni/net.d/10-pods.conflist"


@dataclass(frozen=True)
class Node:
    """A node's address on the engine's network, and the range its pods' addresses come from."""

    address: str
    pods: str


def connect(kind: Kind, kubectl: Kubectl, console: Console, *, published: bool = False) -> None:
    """Give every node its pod network, and wait until all are ready and names are answered.

    Nodes of a `published` image have a network plugin and are only waited for. Raises EngineError when that does not
    come true, with what Kubernetes says.
    """
    with console.step("pod network, nodes ready", expected_s=30):
        if not published:
            _lay(kind, kubectl)
        kubectl.wait("nodes ready", READY_S, "wait", "--for=condition=Ready", "nodes", "--all")
        kubectl.wait("names answered", READY_S, "rollout", "status", "deployment/coredns", "--namespace", "kube-system")


def _lay(kind: Kind, kubectl: Kubectl) -> None:
    nodes = _nodes(kubectl, len(kind.nodes()))
    for name, own in nodes.items():
        kind.execute(name, "cp", "/dev/stdin", CONFLIST, stdin=pod_network(own.pods).encode())
        for words in routes(name, nodes):
            kind.execute(name, *words)


def routes(name: str, nodes: Mapping[str, Node]) -> list[list[str]]:
    """Commands for one node: the way to each other node's pods, past the rule that drops stray packets; pure."""
    commands = []
    for other, node in sorted(nodes.items()):
        if other != name:
            commands.append(["ip", "route", "replace", node.pods, "via", node.address])
            commands.append(["iptables", "-I", "STRAY", "-d", node.pods, "-j", "RETURN"])
    return commands


def _nodes(kubectl: Kubectl, expected: int) -> dict[str, Node]:
    deadline = time.monotonic() + RANGES_S
    while True:
        items = json.loads(kubectl.run("get", "nodes", "--output", "json"))["items"]
        found = {item["metadata"]["name"]: Node(_address(item), item["spec"].get("podCIDR", "")) for item in items}
        if len(found) == expected and all(node.pods for node in found.values()):
            return found
        if time.monotonic() > deadline:
            raise EngineError(
                f"nodes have no range for pods after {RANGES_S:.0f} s: {found}; look at `kubectl get nodes`"
            )
        time.sleep(0.5)


def _address(item: dict[str, Any]) -> str:
    return next(str(one["address"]) for one in item["status"]["addresses"] if one["type"] == "InternalIP")
