"""What driver and executors of a pipeline know each other by, and the password of their page."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import partial
from typing import Final

import pulumi
from pulumi_kubernetes.core.v1 import Secret

from infra.components.derived import KEY, derive
from infra.components.secret import make_secret
from infra.settings import Settings
from infra.values.streaming_pipeline import SparkSecret

SUFFIX: Final = "-spark"
"""Behind a pipeline's name."""
FILES: Final = ("rpc", "page")


def values(settings: Settings, name: str) -> SparkSecret | None:
    """Return what the chart of pipeline `name` is told of it, None where it is off."""
    if not settings.security.spark:
        return None
    return SparkSecret(secret=f"{name}{SUFFIX}", version=str(settings.security.rotation))


class SparkSecrets(pulumi.ComponentResource):
    """One Secret for each pipeline; nothing where it is off."""

    def __init__(
        self, settings: Settings, root: Secret | None, after: list[pulumi.Resource], opts: pulumi.ResourceOptions
    ) -> None:
        super().__init__("effectively-once:platform:SparkSecrets", "spark-secrets", None, opts)
        if settings.security.spark and root is not None:
            for pipeline in settings.pipelines.values():
                name = pipeline.identity.replace("_", "-")
                data = root.data.apply(partial(_derive, name, settings.security.rotation))
                own = pulumi.ResourceOptions(parent=self, depends_on=after)
                make_secret(f"{name}{SUFFIX}", settings.pipelines_namespace, "spark-secrets", data, own)
        self.register_outputs({})


def _derive(name: str, rotation: int, root: Mapping[str, str]) -> dict[str, str]:
    drawn = {file: derive(root[KEY], f"spark/{name}/{file}", rotation) for file in FILES}
    return {file: base64.b64encode(text.encode()).decode() for file, text in drawn.items()}
