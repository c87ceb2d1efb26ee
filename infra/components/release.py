"""A release of one of our charts, and what its values have in common."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pulumi
from pulumi_kubernetes.helm.v4 import Chart

from infra.settings import Settings
from infra.settings.exposure import resolve_exposure
from infra.settings.resources import Resources
from infra.values.common import Storage, Values

CHARTS: Final = Path(__file__).resolve().parents[2] / "charts"
PART_OF: Final = "effectively-once"
FORCE: Final = "pulumi.com/patchForce"


def labels(component: str) -> dict[str, str]:
    """Return the labels of objects that are ours without being a chart's."""
    return {"app.kubernetes.io/part-of": PART_OF, "app.kubernetes.io/name": component}


def common(settings: Settings, image: str) -> dict[str, Any]:
    """Return the arguments that the values of every chart take."""
    selector = dict(settings.scheduling.node_selector)
    if settings.architecture is not None:
        selector["kubernetes.io/arch"] = settings.architecture
    return {
        "image": image,
        "image_pull_policy": settings.image_pull_policy,
        "image_pull_secrets": settings.image_pull_secrets,
        "node_selector": selector,
        "tolerations": [one.model_dump() for one in settings.scheduling.tolerations],
    }


def server(settings: Settings, image: str) -> dict[str, Any]:
    """Return the arguments that the values of a chart of a server take."""
    return {**common(settings, image), "priority_class": settings.priority_class("servers")}


def data_server(settings: Settings, image: str) -> dict[str, Any]:
    """Return the arguments that the values of a chart of a server with data take."""
    return {**server(settings, image), "hold_single_copy": settings.scheduling.hold_single_copies}


def drop_none(**arguments: Any) -> dict[str, Any]:
    """Return the arguments that are not None, so that the chart's own value stands for the others."""
    return {name: value for name, value in arguments.items() if value is not None}


def resources(of: Resources | None) -> dict[str, str] | None:
    """Return resources as an argument for values; None stays None."""
    return None if of is None else of.model_dump()


def exposure(settings: Settings, name: str) -> dict[str, Any]:
    """Return how a service of `external_access` is reached, as arguments for values."""
    return drop_none(**resolve_exposure(settings, name).model_dump())


def storage(settings: Settings, size: str) -> Storage:
    """Return the volume of a StatefulSet's pods."""
    own = settings.storage
    return Storage(storage_class=own.storage_class, size=size, retain=not own.delete_volumes)


def _adjust(resource: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
    """Adjust an object of a chart before it is applied.

    Each may take over its fields from whoever holds them: Pulumi gives every creation a new name as field manager, so
    one that was killed half-way would block all that follow.

    A SparkApplication is rolled by deleting the old one before the new one is made; the new one's driver has the same
    name, so it comes when the old driver has finished its epoch and is gone (docs/adr/0072). Updated in place,
    operator 2.5.2 waits for the old driver's end and then misses it, because it has forgotten which submission the
    driver was of: nothing runs until somebody touches the object. It also shows the state RUNNING of the old driver
    while the new one is not there yet, and we wait for that state.

    Claims of a StatefulSet that is there stay as they are: a change of theirs replaces it, and its volumes go with it.
    Which sizes and classes are refused, `volumes` says.
    """
    metadata = resource.props.get("metadata")
    if not isinstance(metadata, Mapping):
        return None
    annotations = {**(metadata.get("annotations") or {}), FORCE: "true"}
    props = {**resource.props, "metadata": {**metadata, "annotations": annotations}}
    options = resource.opts
    if resource.type_.endswith(":SparkApplication"):
        own = pulumi.ResourceOptions(replace_on_changes=["spec"], delete_before_replace=True)
        options = pulumi.ResourceOptions.merge(options, own)
    elif resource.type_.endswith(":StatefulSet"):
        own = pulumi.ResourceOptions(ignore_changes=["spec.volumeClaimTemplates"])
        options = pulumi.ResourceOptions.merge(options, own)
    return pulumi.ResourceTransformResult(props, options)


def release(
    name: str, chart: str, namespace: str, values: Values, *, parent: pulumi.Resource, after: list[pulumi.Resource]
) -> Chart:
    """Render and apply `charts/<chart>` once everything in `after` is there.

    It counts as created when its StatefulSets and Deployments are ready, its Jobs are complete and the conditions of
    its `pulumi.com/waitFor` annotations hold. `depends_on` of a component does not reach its children in the Python
    SDK: hence `after`.
    """
    return Chart(
        name,
        chart=str(CHARTS / chart),
        name=name,
        namespace=namespace,
        values=values.to_helm(),
        skip_crds=True,
        opts=pulumi.ResourceOptions(parent=parent, depends_on=after, transforms=[_adjust]),
    )
