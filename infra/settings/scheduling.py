"""Where pods may run, how far apart, and who makes room for whom."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from infra.settings.field_types import ObjectName
from infra.settings.section import Section

NO_CLASS: Final = "none"
ClassKind = Literal["servers", "drivers"]
"""The fields of `PriorityClasses`."""


class Toleration(Section):
    """A taint that all our pods accept; the fields are those of Kubernetes."""

    key: str | None = None
    operator: Literal["Equal", "Exists"] = "Equal"
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: int | None = None


class PriorityClasses(Section):
    """Who makes room when nodes are full. Each is the name of a PriorityClass that is there, or `none`.

    Attributes:
        servers: of broker, object store, result store and operator; None: one that the program makes.
        drivers: of drivers, above their executors; None: likewise.
    """

    servers: ObjectName | None = None
    drivers: ObjectName | None = None


class Scheduling(Section):
    """Where all our pods may run.

    Attributes:
        spread: brokers, and controllers, are on nodes of their own: `soft` as far as there are nodes; `hard` or not at
            all, so that no node takes two copies with it.
        hold_single_copies: the pod of a server that has one copy is not evicted: a drain of its node waits until
            somebody deletes it.
    """

    node_selector: dict[str, str] = Field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    spread: Literal["soft", "hard"] = "soft"
    hold_single_copies: bool = False
    priority_classes: PriorityClasses = PriorityClasses()
