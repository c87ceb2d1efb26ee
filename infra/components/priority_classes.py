"""PriorityClasses: who makes room when nodes are full. They are of the whole cluster, so what is there stays as it is.

Servers come before drivers, and drivers before executors, which have no class: an executor that is gone is made again,
and its part of an epoch with it. A class of ours is made where the cluster lets us; one that was there under its name
is used and never changed (docs/adr/0060, docs/adr/0097).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pulumi
from pulumi_kubernetes.scheduling.v1 import PriorityClass

from infra.components.namespaces import MAKER, MARK
from infra.components.release import FORCE, labels
from infra.components.volumes import Find
from infra.settings import Settings, SettingsError
from infra.settings.scheduling import NO_CLASS, ClassKind

VALUES: Final[dict[ClassKind, int]] = {"servers": 100_000, "drivers": 10_000}
"""Pods without a class have 0; those that a cluster cannot do without have more than a thousand million."""
FOR_WHOM: Final[dict[ClassKind, str]] = {
    "servers": "broker, stores and operator: they come before drivers and executors",
    "drivers": "drivers: they come before executors",
}
GROUP: Final = "scheduling.k8s.io"
RESOURCE: Final = "priorityclasses"
May = Callable[[str, str, str], bool]
"""Whether we may do a verb to a group's resource."""


def resolve(settings: Settings, find: Find, may: May) -> tuple[Settings, list[str]]:
    """Return the settings with a word on every class that the program is not to make, and lines to warn with.

    Raises SettingsError for a class that is named and not there.
    """
    said: dict[str, str] = {}
    warnings, wrong = [], []
    # Who may not look cannot know: a class that is named is taken to be there, and none of ours is made.
    known, allowed = may("get", GROUP, RESOURCE), all(may(verb, GROUP, RESOURCE) for verb in ("create", "patch"))
    for kind in VALUES:
        field, given = f"scheduling.priority_classes.{kind}", getattr(settings.scheduling.priority_classes, kind)
        if given == NO_CLASS:
            continue
        name = given or settings.own_priority_class(kind)
        there = find(f"/apis/{GROUP}/v1/{RESOURCE}/{name}") if known else None
        if given is not None:
            if known and there is None:
                wrong.append(f"{field}: the cluster has no PriorityClass {name!r}; make it first, or say {NO_CLASS}")
        elif there is not None:
            if (there["metadata"].get("annotations") or {}).get(MARK) != MAKER:
                said[kind] = name
        elif not (known and allowed):
            said[kind] = NO_CLASS
            warnings.append(
                f"{field}: who deploys may not make PriorityClass {name}, so {kind} wait for room as every pod does; "
                f"name one that is there, or say {NO_CLASS}"
            )
    if wrong:
        raise SettingsError(wrong)
    classes = settings.scheduling.priority_classes.model_copy(update=said)
    scheduling = settings.scheduling.model_copy(update={"priority_classes": classes})
    return settings.model_copy(update={"scheduling": scheduling}), warnings


class PriorityClasses(pulumi.ComponentResource):
    """Those that no setting names; they go with the stack, as no other uses them."""

    def __init__(self, settings: Settings, opts: pulumi.ResourceOptions) -> None:
        super().__init__("effectively-once:platform:PriorityClasses", "priority-classes", None, opts)
        for kind, value in VALUES.items():
            if getattr(settings.scheduling.priority_classes, kind) is None:
                name = settings.own_priority_class(kind)
                annotations = {FORCE: "true", MARK: MAKER}
                PriorityClass(
                    name,
                    metadata={"name": name, "labels": labels("priority-classes"), "annotations": annotations},
                    value=value,
                    global_default=False,
                    description=FOR_WHOM[kind],
                    opts=pulumi.ResourceOptions(parent=self),
                )
        self.register_outputs({})
