"""The stack of pods: pipelines of the Spark operator beside the deployed ones, which are suspended meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from effectively_once.pipeline.settings import PipelineSettings
from infra.console import Console
from infra.embedded.job import RunError
from infra.embedded.spark import EXECUTORS
from infra.embedded.stack import Endpoints
from infra.toolchain.prepare import CHECKOUT
from tests.experiments.embedded import write_settings
from tests.experiments.stack import Asked, Cast, Role
from tests.harness.adapters.cluster import ClusterTimeoutError
from tests.harness.adapters.events import Watch
from tests.harness.adapters.job_home import PROGRAM
from tests.harness.adapters.pod_database import PodDatabase, secret_name
from tests.harness.adapters.pod_hold import ENVIRONMENT, PodHold
from tests.harness.adapters.pod_log import DRIVER, EXECUTOR
from tests.harness.adapters.service_policies import policies
from tests.harness.faults.cluster_platform import Platform
from tests.harness.history import History
from tests.harness.platform_sorts import RESULT_STORE
from tests.harness.play.room import Found, make_room
from tests.harness.play.stage import CREATE_S, Stage, names
from tests.harness.run_directory import RunDirectory


@dataclass(frozen=True)
class PodStack:
    """Pods of a cluster.

    Attributes:
        stage: of the run.
        lent: the result store; None where the run needs none.
    """

    stage: Stage
    lent: PodDatabase | None
    broker_data: None = None
    driver_s: float = 240.0

    @property
    def endpoints(self) -> Endpoints:
        """See Stack."""
        return self.stage.endpoints

    @property
    def replication(self) -> int:
        """See Stack."""
        return self.stage.replication

    @property
    def database(self) -> PodDatabase:
        """See Stack."""
        assert self.lent is not None, "whoever uses it has asked for it"
        return self.lent

    def pipeline(self, name: str) -> str:
        """See Stack: the first letters of its words, and the digits of the run."""
        pipeline, _ = names(self.stage.directory.path.name, "".join(word[0] for word in name.split("_")))
        return pipeline

    def cast(
        self, directory: RunDirectory, history: History, module: str, roles: Sequence[Role], **asked: Unpack[Asked]
    ) -> Cast:
        """See Stack."""
        watch = Watch(directory.path.absolute() / "work" / "events.jsonl", history)
        memory_mib, files = asked.get("memory_mib"), asked.get("files", ())
        executors = {"count": asked.get("executors", EXECUTORS), **({"memoryMib": memory_mib} if memory_mib else {})}
        values = {
            "module": None if module == PROGRAM else module,
            "environment": {**ENVIRONMENT, **asked.get("environment", {})},
            "extraFiles": {path.replace("/", "."): (CHECKOUT / path).read_text(encoding="utf-8") for path in files},
            "executors": {**self.stage.target.values.get("executors", {}), **executors},
            **asked.get("chart", {}),
        }
        drivers, paths = [], []
        for role in roles:
            settings = self.settings(role)
            named = settings.pipeline.replace("_", "-") + ("" if role.name == "driver" else f"-{role.name}")
            own = {**values, **self._of(role), "name": named}
            drivers.append(self.stage.supervised(settings, watch, history, directory.logs, **own))
            whole = settings.model_dump(mode="json")
            write_settings(directory, role, {**whole, **role.own})
            path = directory.path.absolute() / "work" / f"{named}.json"
            directory.write_json(path, whole)
            paths.append(path)
        hold = PodHold(self.stage.cluster, [one.log for one in drivers], (EXECUTOR, DRIVER))
        return Cast(tuple(drivers), tuple(paths), tuple(roles), watch, hold, None)

    def create(self, directory: RunDirectory, role: Role, partitions: int) -> None:
        """See Stack."""
        settings = self.settings(role)
        whole = settings.model_dump(mode="json")
        directory.write_json(directory.path / "settings-create.json", whole)
        try:
            self.stage.create(settings, partitions, CREATE_S, **self._of(role))
        except ClusterTimeoutError as error:
            raise RunError(str(error)) from error

    def settings(self, role: Role) -> PipelineSettings:
        """See Stack."""
        given = {**({"database": self.lent.inside} if self.lent is not None else {}), **role.settings}
        return self.stage.settings("", given)

    def _of(self, role: Role) -> dict[str, Any]:
        """Values of the chart that settings bring along."""
        secret = {"databaseSecret": secret_name(self.stage.run)} if self.lent is not None else {}
        return {**secret, "jobSettings": dict(role.own)}


@contextmanager
def pods(path: Path, seed: int, console: Console, found: Found, needs: str | None) -> Iterator[PodStack]:
    """Have room on a cluster for a run, and the result store; everything of it is deleted afterwards.

    Args:
        path: of the run.
        seed: of the run.
        console: tells what is under way.
        found: the cluster.
        needs: what PostgreSQL is for, in a message where there is none; None where no arm needs one.

    Raises:
        NotDeployedError: there is no pipeline to take.
        RunError: the platform has no PostgreSQL of its own.
    """
    with make_room(found, found.target(), seed, console, RunDirectory(path)) as stage:
        stage.cluster.apply(policies(stage.run, stage.target.values))
        if needs is None:
            yield PodStack(stage, None)
            return
        deployed = found.deployed
        platform = Platform.of(deployed.kubeconfig, deployed.context, deployed.platform, None)
        server = platform.servers.get(RESULT_STORE)
        if server is None:
            raise RunError(f"{needs} needs a result store: the platform on this cluster has no PostgreSQL of its own")
        with closing(PodDatabase.of(server, deployed.platform, deployed.kubeconfig, deployed.context)) as database:
            database.open(stage.cluster, stage.run)
            yield PodStack(stage, database)
