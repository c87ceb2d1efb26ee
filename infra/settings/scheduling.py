"""Where pods may run."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from infra.settings.section import Section


class Toleration(Section):
    """A taint that all our pods accept; the fields are those of Kubernetes."""

    key: str | None = None
    operator: Literal["Equal", "Exists"] = "Equal"
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: int | None = None


class Scheduling(Section):
    """Where all our pods may run."""

    node_selector: dict[str, str] = Field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
