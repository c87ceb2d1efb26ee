"""A Secret that the program makes: one of ours by its labels, put over what a killed update left."""

from __future__ import annotations

from typing import Any

import pulumi
from pulumi_kubernetes.core.v1 import Secret

from infra.components.release import FORCE, labels


def make_secret(
    name: str, namespace: str, component: str, data: Any, opts: pulumi.ResourceOptions, *, called: str | None = None
) -> Secret:
    """Register a Secret, whose contents the state keeps encrypted.

    Args:
        name: in the cluster.
        namespace: where it is.
        component: whose it is, for its labels.
        data: key -> base64; an output or a value.
        opts: of the resource.
        called: its name in the stack, where that is another one, as several namespaces have it.
    """
    return Secret(
        called or name,
        metadata={
            "name": name,
            "namespace": namespace,
            "labels": labels(component),
            "annotations": {FORCE: "true"},
        },
        type="Opaque",
        data=pulumi.Output.secret(data),
        opts=opts,
    )
