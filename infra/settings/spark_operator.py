"""The Spark operator: ours, or one that is there already."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from infra.settings.field_types import Label
from infra.settings.resources import Resources
from infra.settings.section import Section


class SparkOperator(Section):
    """The operator; `installed` means one that watches our pipelines' namespace is there, with its CRDs.

    Attributes:
        crds: folder of its custom resource definitions, as `make tools` makes them; a relative one lies in the
            repository. Needed unless one is installed.
        other_namespaces: of pipelines that are not this stack's, and that our operator looks after too; they exist.
    """

    installed: bool = False
    crds: Annotated[str, Field(min_length=1)] | None = None
    other_namespaces: tuple[Label, ...] = ()
    replicas: Annotated[int, Field(ge=1, le=3)] = 1
    resources: Resources | None = None
