"""What an acceptance run asks of the deployed stack, and finds there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from infra.embedded.stack import Endpoints


class Deployed(Protocol):
    """The deployed stack, as infra.cluster.access.Access gives it."""

    @property
    def kubeconfig(self) -> Path:
        """File of the cluster's address and credentials."""

    @property
    def context(self) -> str | None:
        """Context of the kubeconfig, None for its current one."""

    def endpoints(self) -> Endpoints:
        """Addresses outside the cluster, with credentials."""

    def pulumi(self, *words: str) -> str:
        """What a command of Pulumi prints for the stack."""


class NotDeployedError(Exception):
    """The stack has no pipeline whose image and resources a run could take; the message says what to do."""


@dataclass(frozen=True)
class Target:
    """What a run needs to know of the stack: the namespace of pipelines, and the values of a deployed one."""

    namespace: str
    values: Mapping[str, Any]

    @classmethod
    def of(cls, output: str) -> Target:
        """Read `pulumi stack output --json`. Raises NotDeployedError."""
        try:
            platform = json.loads(output)["platform"]
            pipelines, namespace = platform["pipelines"], platform["namespaces"]["pipelines"]
        except (ValueError, KeyError, TypeError) as error:
            raise NotDeployedError(f"the stack's output `platform` lacks {error}: run `make up`") from error
        for name in ("user_counts", "user-counts"):
            if name in pipelines:
                return cls(namespace, pipelines[name])
        there = ", ".join(sorted(pipelines)) or "none"
        raise NotDeployedError(f"the stack has no pipeline user_counts (there is: {there}): deploy it, then run again")
