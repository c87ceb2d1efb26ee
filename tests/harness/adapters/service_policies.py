"""NetworkPolicies of a run's services: its pipelines may call them, and they may ask the result store.

The namespace of pipelines is closed to every pod that is not a chart's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.harness.adapters.rendering import RUN_LABEL, Object
from tests.harness.adapters.service_pod import NAME, PORT

PIPELINE = "streaming-pipeline"
_DNS = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
    "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
}


def policies(run: str, deployed: Mapping[str, Any]) -> list[Object]:
    """The policies of a run; none where the deployed pipeline has none.

    Args:
        run: label of everything that belongs to the run, which deletes them.
        deployed: values of the chart of the deployed pipeline.
    """
    given = deployed.get("networkPolicies") or {}
    if not given.get("enabled"):
        return []
    pipelines = {"matchLabels": {RUN_LABEL: run, NAME: PIPELINE}}
    services = {
        "matchLabels": {RUN_LABEL: run},
        "matchExpressions": [{"key": NAME, "operator": "NotIn", "values": [PIPELINE]}],
    }
    store = given["resultStore"]
    wanted = store["pods"]
    peer = {"podSelector": {"matchLabels": wanted["labels"]}, "namespaceSelector": {}}
    if wanted.get("namespace"):
        peer["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": wanted["namespace"]}}
    names = [{"ipBlock": {"cidr": cidr}} for cidr in given["dns"]]
    return [
        _policy(
            f"{run}-services",
            run,
            services,
            ingress=[{"from": [{"podSelector": pipelines}], "ports": _ports(PORT)}],
            egress=[
                {"to": [_DNS, *names], "ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]},
                {"to": [peer], "ports": _ports(*store["ports"])},
            ],
        ),
        _policy(f"{run}-calls", run, pipelines, egress=[{"to": [{"podSelector": services}], "ports": _ports(PORT)}]),
    ]


def _ports(*numbers: int) -> list[Object]:
    return [{"port": number, "protocol": "TCP"} for number in numbers]


def _policy(name: str, run: str, pods: Object, **rules: list[Object]) -> Object:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "labels": {RUN_LABEL: run}},
        "spec": {"podSelector": pods, "policyTypes": [way.title() for way in rules], **rules},
    }
