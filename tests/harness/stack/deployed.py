"""What a run on a cluster needs: the deployed stack, tools of its broker, and the pipeline whose image it takes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.cluster.access import Access, load_access
from infra.cluster.lock import exclusive
from infra.cluster.state import state_directory
from infra.console import Console
from infra.errors import UserError
from infra.toolchain.cache import Cache, cache_root
from infra.toolchain.jars import resolve_jars
from infra.toolchain.jdk import find_jdk

USER_COUNTS = "user_counts"


class NotDeployedError(UserError):
    """The stack has no pipeline whose image and resources a run could take; the message says what to do."""


@dataclass(frozen=True)
class Target:
    """What a run needs to know of the stack: the namespace of pipelines, and the values of a deployed one."""

    namespace: str
    values: Mapping[str, Any]

    @classmethod
    def of(cls, output: str, name: str = USER_COUNTS) -> Target:
        """Read `pulumi stack output --json`: of the pipeline of a name, or else of `user_counts`.

        Raises:
            NotDeployedError: there is neither.
        """
        try:
            platform = json.loads(output)["platform"]
            pipelines, namespace = platform["pipelines"], platform["namespaces"]["pipelines"]
        except (ValueError, KeyError, TypeError) as error:
            raise NotDeployedError(f"the stack's output `platform` lacks {error}: run `make up`") from error
        for one in (name, name.replace("_", "-"), USER_COUNTS, USER_COUNTS.replace("_", "-")):
            if one in pipelines:
                return cls(namespace, pipelines[one])
        there = ", ".join(sorted(pipelines)) or "none"
        raise NotDeployedError(f"the stack has no pipeline user_counts (there is: {there}): deploy it, then run again")


@dataclass(frozen=True)
class BrokerTools:
    """Java and the broker's jars: open transactions are listed by the broker's own tool."""

    java: Path
    classpath: Path


@dataclass(frozen=True)
class Found:
    """What a run on this machine's cluster needs.

    Attributes:
        deployed: the stack.
        tools: of the broker.
        helm: renders the chart.
    """

    deployed: Access
    tools: BrokerTools
    helm: Path

    @classmethod
    def here(cls, console: Console) -> Found:
        """Find it, on the cluster that this machine's state directory or KUBECONFIG names.

        Raises:
            NotDeployedError: there is no helm.
            ToolchainError: Java or the broker's jars are not to be had.
            AccessError and other errors of the cluster: it cannot be reached.
        """
        state = state_directory()
        environment = state.process_environment()
        helm = shutil.which("helm", path=environment["PATH"])
        if helm is None:
            raise NotDeployedError("there is no `helm` on PATH or among the project's tools: run `make tools ALL=1`")
        with console.step("broker jars (Maven)"):
            jars = resolve_jars(Cache(cache_root()), "kafka")
        return cls(load_access(environment, state.root), BrokerTools(find_jdk().java, jars), Path(helm))

    @classmethod
    @contextmanager
    def alone(cls, command: str, console: Console) -> Iterator[Found]:
        """Find it for a command, and keep out every other run, `up` and `down` until the block ends.

        Raises:
            BusyError: one of them is at work; nothing was touched.
            NotDeployedError, ToolchainError, AccessError: as of `here`.
        """
        # Runs pause what is deployed, and delete what other runs left there.
        with exclusive(state_directory(), command):
            yield cls.here(console)

    def target(self, name: str = USER_COUNTS) -> Target:
        """The deployed pipeline of a name, or else `user_counts`. Raises NotDeployedError."""
        return Target.of(self.deployed.pulumi("stack", "output", "--json"), name)
