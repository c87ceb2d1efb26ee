"""Who connects to whom: what the charts' policies are given, and a namespace that is closed for everybody else.

Policies only ever open, and a pod that none selects is open. So each pod of a chart has one that closes it but for its
own flows, and each namespace one for whatever else is put into it (docs/adr/0073).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

import pulumi
from pulumi_kubernetes.networking.v1 import NetworkPolicy

from infra.components.release import FORCE, labels
from infra.settings import Settings
from infra.settings.pipeline import Outside
from infra.values.network import ANYWHERE, OUR_LABEL, Egress, Pods, block

DEFAULT_DENY: Final[dict[str, Any]] = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
"""The `spec` of a policy that selects every pod and opens nothing."""
NAME: Final = "default-deny"


def base_values(settings: Settings) -> dict[str, Any]:
    """Return the arguments that the policies of every chart take."""
    return {"enabled": settings.network_policies.enabled}


def names(settings: Settings) -> dict[str, Any]:
    """Return those of pods that resolve names."""
    return {**base_values(settings), "dns": settings.network_policies.dns}


def clients(settings: Settings, others: Iterable[str], *more: Pods) -> tuple[Pods, ...]:
    """Return the clients of a server: the pods of pipelines, `more`, and every pod of namespaces that are named."""
    pipelines = Pods(namespace=settings.pipelines_namespace, labels=OUR_LABEL)
    return (pipelines, *more, *(Pods(namespace=name) for name in others))


def watchers(settings: Settings) -> tuple[Pods, ...]:
    """Return who asks servers for metrics: our Prometheus, or the pods of namespaces that are named, one of another."""
    watched = settings.monitoring
    if not watched.enabled:
        return ()
    own = {**OUR_LABEL, "app.kubernetes.io/name": "monitoring", "app.kubernetes.io/component": "prometheus"}
    others = tuple(Pods(namespace=name) for name in watched.clients)
    return others if watched.operator_objects else (Pods(namespace=settings.namespace, labels=own),)


def api_server(settings: Settings) -> Egress:
    """Return where the API server of Kubernetes is: it is no pod, and nobody tells its address to a chart."""
    known = settings.network_policies
    return Egress(addresses=tuple(map(block, known.api_server)) or ANYWHERE, ports=known.api_server_ports)


def outside(one: Outside) -> Egress:
    """Return what a job connects to besides broker and stores."""
    pods = None if one.namespace is None else Pods(namespace=one.namespace)
    return Egress(pods=pods, addresses=tuple(map(block, one.addresses)), ports=one.ports)


class DefaultDeny(pulumi.ComponentResource):
    """Closes the namespaces that we made to every pod that no policy selects. Pods of others are in those `brought`.

    It comes last: on a platform that has no policies yet, pods would be cut off until those of their charts are there.
    """

    def __init__(
        self,
        settings: Settings,
        namespaces: Iterable[str],
        brought: Collection[str],
        after: list[pulumi.Resource],
        opts: pulumi.ResourceOptions,
    ) -> None:
        super().__init__("effectively-once:platform:DefaultDeny", NAME, None, opts)
        if settings.network_policies.enabled:
            for namespace in namespaces:
                if namespace not in brought:
                    NetworkPolicy(
                        f"{NAME}-{namespace}",
                        metadata={
                            "name": NAME,
                            "namespace": namespace,
                            "labels": labels("network"),
                            "annotations": {FORCE: "true"},
                        },
                        spec=DEFAULT_DENY,
                        opts=pulumi.ResourceOptions(parent=self, depends_on=after),
                    )
        self.register_outputs({})
