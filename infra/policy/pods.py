"""Pods that an object makes, and what they run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

Object = dict[str, Any]
NAME: Final = "app.kubernetes.io/name"
"""Label that says what a pod, and what belongs to it, is part of."""
CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")


def pods(one: Object) -> Iterator[tuple[str, Object]]:
    """Yield where in an object a pod is specified (empty: it is the pod), and its `spec`."""
    spec = one.get("spec")
    if not isinstance(spec, Mapping):
        return
    if one["kind"] == "Pod":
        yield "", dict(spec)
    elif one["kind"] == "SparkApplication":
        for role in ("driver", "executor"):
            yield role, _with_image(spec[role]["template"]["spec"], spec.get("image"))
    elif one["kind"] == "CronJob":
        yield "", spec["jobTemplate"]["spec"]["template"]["spec"]
    elif isinstance(template := spec.get("template"), Mapping) and "spec" in template:
        yield "", template["spec"]


def _with_image(pod: Object, image: object) -> Object:
    """Return the pod with the image that Spark puts into containers without one."""
    return {**pod, "containers": [{"image": image, **one} for one in pod["containers"]]}


def containers(pod: Object) -> Iterator[Object]:
    """Yield containers of every kind."""
    for kind in CONTAINERS:
        yield from pod.get(kind) or ()
