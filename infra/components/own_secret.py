"""The Secret of a pipeline: variables of its environment that were set with `--secret`."""

from __future__ import annotations

import base64
import hashlib
import json

import pulumi
from pulumi_kubernetes.core.v1 import Secret

from infra.components.secret import make_secret
from infra.settings import Pipeline, Settings
from infra.values.streaming_pipeline import SecretEnvironment


def values(name: str, pipeline: Pipeline) -> SecretEnvironment | None:
    """Return what the chart of pipeline `name` is told of them, None without any: names, and never a value.

    The version comes from the ciphertexts. That of a value would let whoever reads pods try passwords against it; a
    ciphertext is another one each time that a value is set, and tells nothing without the stack's passphrase.
    """
    sealed = {variable: one.sealed for variable, one in pipeline.secret_environment.items()}
    if not sealed:
        return None
    version = hashlib.sha256(json.dumps(sealed, sort_keys=True).encode()).hexdigest()[:16]
    return SecretEnvironment(secret=f"{name}-environment", variables=tuple(sorted(sealed)), version=version)


def make(
    name: str, settings: Settings, pipeline: Pipeline, *, parent: pulumi.Resource, after: list[pulumi.Resource]
) -> Secret:
    """Register it in the namespace of pipelines; the state keeps its values encrypted."""
    data = {
        variable: base64.b64encode(one.value.get_secret_value().encode()).decode()
        for variable, one in pipeline.secret_environment.items()
    }
    opts = pulumi.ResourceOptions(parent=parent, depends_on=after)
    return make_secret(name, settings.pipelines_namespace, "streaming-pipeline", data, opts)
