"""A ValidatingAdmissionPolicy in force: what the API server refuses, and where. Its name is of the whole cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
from pulumi_kubernetes.admissionregistration.v1 import ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding

from infra.components.release import FORCE, labels


class ApiPolicy(pulumi.ComponentResource):
    """A policy, and then its bindings.

    Args:
        kind: of the component, in Pulumi's state.
        label: of the component, and of its objects.
        called: the policy's name.
        spec: of the policy.
        bindings: name -> `spec`; without any there is no policy.
        after: what has to be there before it.

    """

    def __init__(
        self,
        kind: str,
        label: str,
        opts: pulumi.ResourceOptions,
        *,
        called: str,
        spec: Mapping[str, Any],
        bindings: Mapping[str, Mapping[str, Any]],
        after: Sequence[pulumi.Resource] = (),
    ) -> None:
        super().__init__(f"effectively-once:platform:{kind}", label, None, opts)

        def metadata(name: str) -> dict[str, Any]:
            return {"name": name, "labels": labels(label), "annotations": {FORCE: "true"}}

        if bindings:
            own = pulumi.ResourceOptions(parent=self, depends_on=[*after])
            made = ValidatingAdmissionPolicy(called, metadata=metadata(called), spec=spec, opts=own)
            bound = pulumi.ResourceOptions(parent=self, depends_on=[made])
            for name, one in bindings.items():
                ValidatingAdmissionPolicyBinding(name, metadata=metadata(name), spec=one, opts=bound)
        self.register_outputs({})
