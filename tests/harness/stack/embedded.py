"""The stack of processes of this machine: broker, object store and result store, for as long as a block lasts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack
from unittest.mock import patch

from effectively_once.pipeline.settings import PipelineSettings
from infra.console import Console
from infra.embedded.class_archive import class_archive
from infra.embedded.job import Job, RunError
from infra.embedded.postgres import PostgresServer
from infra.embedded.spark import EXECUTORS
from infra.embedded.stack import EmbeddedStack, Endpoints
from infra.toolchain.postgres import HOW, find_postgres
from infra.toolchain.prepare import CHECKOUT, Toolchain, prepare
from tests.harness.adapters.cpu import Cpu
from tests.harness.adapters.events import Watch
from tests.harness.adapters.hold import Hold
from tests.harness.adapters.job_home import JobHome
from tests.harness.adapters.supervised import SupervisedDrivers
from tests.harness.adapters.witness import ProcessWitness
from tests.harness.history import History
from tests.harness.run_directory import RunDirectory
from tests.harness.stack.processes import Asked, Processes, Role, write_settings
from tests.harness.stack.servers import result_store
from tests.harness.stack.stack import Patience

LASTING, QUICK = "lasting", "quick"
"""JVMs for throughput, or such as are up soon."""
MEMORY_MIB = 768
PATIENCE = Patience(driver_s=180.0, replaced_s=120.0, take_over_s=120.0)


@dataclass(frozen=True)
class ProcessStack:
    """Processes of this machine.

    Attributes:
        toolchain: jars, wheel and Java.
        endpoints: of broker and object store.
        server: the result store; None where the run needs none.
        class_archive: of JVMs that are to be up soon; None where they are for throughput.
        path: folder of the run.
        say: tells what is under way.
        patience: how long things may take here.
    """

    toolchain: Toolchain
    endpoints: Endpoints
    server: PostgresServer | None
    class_archive: Path | None
    path: Path
    say: Callable[[str], None]
    patience: Patience = PATIENCE
    replication: int = 1

    @property
    def database(self) -> PostgresServer:
        """See Stack."""
        assert self.server is not None, "whoever uses it has asked for it"
        return self.server

    @property
    def broker_data(self) -> Path:
        """See Stack."""
        return self.path.absolute() / "work" / "kafka"

    @property
    def long_lived(self) -> bool:
        """Whether JVMs are for throughput."""
        return self.class_archive is None

    def witness(self, history: History) -> ProcessWitness:
        """See Stack."""
        return ProcessWitness(history)

    def pipeline(self, name: str) -> str:
        """See Stack: all that a run has is its own."""
        return name

    def settings(self, role: Role) -> PipelineSettings:
        """See Stack."""
        return PipelineSettings(**{**self.addresses, **role.settings})

    def prepare(
        self, directory: RunDirectory, history: History, module: str, roles: Sequence[Role], **asked: Unpack[Asked]
    ) -> Processes:
        """See Stack."""
        hold = Hold(directory.path.absolute() / "work" / "points")
        watch = Watch(directory.path.absolute() / "work" / "events.jsonl", history)
        home = self._home(directory, hold.env, asked)
        drivers = tuple(SupervisedDrivers(home, module, watch.path, history=history, say=self.say) for _ in roles)
        paths = tuple(
            write_settings(directory, role, self.addresses | dict(role.settings) | dict(role.own)) for role in roles
        )
        return Processes(drivers, paths, tuple(roles), watch, hold, Cpu(lambda: [one.driver for one in drivers]))

    def create(self, directory: RunDirectory, role: Role, partitions: int) -> None:
        """See Stack."""
        library = self.addresses | dict(role.settings)
        path = directory.path.absolute() / "settings-create.json"
        directory.write_json(path, library)
        self._home(directory, {}, {}).create(
            path, partitions, write_settings(directory, role, library | dict(role.own))
        )

    @property
    def addresses(self) -> dict[str, Any]:
        """Settings that tell where servers are."""
        told = self.endpoints
        addresses = {
            "kafka_bootstrap": told.kafka_bootstrap,
            "s3_endpoint": told.s3_endpoint,
            "s3_bucket": told.s3_bucket,
        }
        return {**addresses, **({"database": self.server.url} if self.server is not None else {})}

    def _home(self, directory: RunDirectory, more: Mapping[str, str], asked: Asked) -> JobHome:
        environment = {**Job({}).environment(self.toolchain), **more, **asked.get("environment", {})}
        if asked.get("files"):
            environment["PYTHONPATH"] = f"{environment['PYTHONPATH']}:{CHECKOUT}"
        executors, memory_mib = asked.get("executors", EXECUTORS), asked.get("memory_mib") or MEMORY_MIB
        return JobHome(
            self.toolchain,
            self.endpoints,
            directory.path.absolute(),
            self.class_archive,
            memory_mib=memory_mib,
            executors=executors,
            long_lived=self.long_lived,
            environment=environment,
        )


@contextmanager
def embedded(
    path: Path, console: Console, needs: str | None, *, quick: bool, patience: Patience = PATIENCE
) -> Iterator[ProcessStack]:
    """Start it in the folder of a run; credentials are in the environment meanwhile.

    Args:
        path: of the run.
        console: told what is up.
        needs: what PostgreSQL is for, in a message where there is none; None where no arm needs one.
        quick: JVMs that are up soon.
        patience: how long things may take there.

    Raises:
        RunError: there is no PostgreSQL.
        ServerError: a server does not start.

    """
    programs = find_postgres()
    if needs is not None and programs is None:
        raise RunError(f"{needs} needs a result store. {HOW}")
    toolchain, archive = prepare(console), None
    if quick:
        archive = class_archive(toolchain, console)
    # One test plays an experiment in the process of others, whose object store has other credentials.
    with (
        EmbeddedStack(path, toolchain, console.say, long_lived=not quick, class_archive=archive) as servers,
        patch.dict(os.environ, servers.endpoints.credentials),
        result_store(RunDirectory(path), programs if needs is not None else None) as server,
    ):
        yield ProcessStack(toolchain, servers.endpoints, server, archive, path, console.say, patience)
