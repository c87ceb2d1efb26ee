"""What is in a cluster before a deployment: claims, StatefulSets and classes, as its API gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from infra.cluster.api import Api, ApiError
from infra.components.shape import require_same
from infra.components.volumes import CLASSES, DEFAULT
from infra.settings import SettingsError
from infra.values.common import Values
from tests.charts.render import render
from tests.infra.platform import settings

PLATFORM = "effectively-once"
LAPTOP = {"data-kafka-0": "4Gi", "data-minio-0": "4Gi", "data-postgres-0": "1Gi"}
"""Claims of the profile of that name."""
STANDARD = {"standard": {"default": True}}


@dataclass
class There(Api):
    """A cluster that answers from what it was given.

    Attributes:
        claims: sizes by name; `size class` for another class than `standard`.
        sets: `spec` of StatefulSets by name.
        classes: by name, with `default` and `grows`.
        unbound: names of claims that nothing was written into.
        secrets: keys of the platform's Secrets by name.
        status: of the answer for what is not there.
    """

    claims: Mapping[str, str] = field(default_factory=dict)
    sets: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    classes: Mapping[str, Mapping[str, bool]] = field(default_factory=lambda: STANDARD)
    unbound: frozenset[str] = frozenset()
    secrets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    status: int = 404

    def get(self, path: str, **_: str) -> dict[str, Any]:
        """Return the object or list at `path`."""
        folder, name = path.rsplit("/", 1)
        if self.status != 404:
            raise ApiError(self.status, "no", path)
        if path == f"/api/v1/namespaces/{PLATFORM}/persistentvolumeclaims":
            return {"items": [self._claim(*one) for one in self.claims.items()]}
        if path == CLASSES:
            return {"items": [self._class(*one) for one in self.classes.items()]}
        if folder == f"/api/v1/namespaces/{PLATFORM}/secrets" and name in self.secrets:
            return {"data": dict.fromkeys(self.secrets[name], "eA==")}
        if folder == f"/api/v1/namespaces/{PLATFORM}/secrets":
            raise ApiError(self.status, "no", path)
        assert folder == f"/apis/apps/v1/namespaces/{PLATFORM}/statefulsets", path
        if name not in self.sets:
            raise ApiError(self.status, "no", path)
        return {"spec": self.sets[name]}

    def _claim(self, name: str, told: str) -> dict[str, Any]:
        size, _, of = told.partition(" ")
        spec = {"resources": {"requests": {"storage": size}}, "storageClassName": of or "standard"}
        return {"metadata": {"name": name}, "spec": spec if name in self.unbound else spec | {"volumeName": "pv-1"}}

    @staticmethod
    def _class(name: str, told: Mapping[str, bool]) -> dict[str, Any]:
        annotations = {DEFAULT: "true"} if told.get("default") else {}
        return {
            "metadata": {"name": name, "annotations": annotations},
            "allowVolumeExpansion": told.get("grows", False),
        }


def stateful_sets(chart: str, values: Values) -> dict[str, dict[str, Any]]:
    """Return the `spec` of each StatefulSet that a chart makes."""
    return {one["metadata"]["name"]: one["spec"] for one in render(chart, values.to_helm()).of("StatefulSet")}


def refusals(there: There, **config: object) -> list[str]:
    """Return the lines with which settings are refused for what is there."""
    with pytest.raises(SettingsError) as caught:
        require_same(settings(**config), there.find)
    return [*caught.value.lines]
