"""What a container asks for."""

from __future__ import annotations

from infra.settings.field_types import Quantity
from infra.settings.section import Section


class Resources(Section):
    """What a container asks for, in Kubernetes' own quantities."""

    cpu_request: Quantity
    memory_request: Quantity
    memory_limit: Quantity
