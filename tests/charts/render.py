"""Renders a chart with typed values, and finds objects in what comes out."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from infra.policy.pods import pods
from infra.toolchain.cache import Cache, cache_root
from infra.toolchain.go_tools import HELM_TOOL, build
from infra.values.generate import CHARTS

TIMEOUT_S = 60.0
# The C library reads a chart ten times as fast.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
NAMESPACE = "release-namespace"
Object = dict[str, Any]


@dataclass(frozen=True)
class Rendered:
    """The objects of one release."""

    objects: list[Object]

    def __iter__(self) -> Iterator[Object]:
        """All of them."""
        return iter(self.objects)

    def of(self, kind: str) -> list[Object]:
        """Those of a kind."""
        return [one for one in self.objects if one["kind"] == kind]

    def one(self, kind: str, name: str) -> Object:
        """The one of a kind and name."""
        found = [found for found in self.of(kind) if found["metadata"]["name"] == name]
        assert len(found) == 1, f"{len(found)} of {kind} {name} among {self.names()}"
        return found[0]

    def names(self) -> list[str]:
        """Kind and name of everything."""
        return [f"{one['kind']}/{one['metadata']['name']}" for one in self.objects]

    def pods(self) -> Iterator[tuple[str, Object]]:
        """Name and pod spec of everything that makes pods."""
        for one in self.objects:
            name = f"{one['kind']}/{one['metadata']['name']}"
            for where, pod in pods(one):
                yield "/".join(filter(None, (name, where))), pod


@cache
def _helm() -> Path:
    return build(Cache(cache_root()), HELM_TOOL) / "helm"


def helm(*arguments: str, values: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """Run helm with values on its standard input."""
    return subprocess.run(
        [_helm(), *arguments, "--values", "-"],
        input=json.dumps(values),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def render(chart: str, values: dict[str, Any], name: str = "release", namespace: str = NAMESPACE) -> Rendered:
    """Render a chart; a refusal of Helm fails the test with its words."""
    return _rendered(chart, json.dumps(values), name, namespace)


@cache
def _rendered(chart: str, values: str, name: str, namespace: str) -> Rendered:
    answer = helm("template", name, str(CHARTS / chart), "--namespace", namespace, values=json.loads(values))
    assert answer.returncode == 0, answer.stderr
    return Rendered([found for found in yaml.load_all(answer.stdout, LOADER) if found])


def environment(pod: Object) -> dict[str, Any]:
    """Environment of a pod's only container: the value, or where it comes from."""
    (container,) = pod["containers"]
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container.get("env", [])}


def mounted(pod: Object) -> dict[str, Any]:
    """Volumes of a pod's only container, by path; None for a claim of its StatefulSet."""
    (container,) = pod["containers"]
    volumes = {one["name"]: one for one in pod["volumes"]}
    return {one["mountPath"]: volumes.get(one["name"]) for one in container["volumeMounts"]}


def secret_at(pod: Object, path: str) -> tuple[str, str]:
    """Name of the Secret that is mounted in the folder of a file, and the file's name."""
    folder, _, file = path.rpartition("/")
    return mounted(pod)[folder]["secret"]["secretName"], file
