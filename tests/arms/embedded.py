"""What all arms of a run share: broker, object store, PostgreSQL and toolchain, for as long as a block lasts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from infra.console import Console
from infra.embedded.class_archive import class_archive
from infra.embedded.job import RunError
from infra.embedded.postgres import PostgresServer
from infra.embedded.stack import EmbeddedStack, Endpoints
from infra.toolchain.cache import Cache, cache_root
from infra.toolchain.postgres import HOW, find_postgres
from infra.toolchain.prepare import Toolchain, prepare
from tests.harness.run_directory import RunDirectory
from tests.harness.surroundings import result_store

LASTING, QUICK = "lasting", "quick"
"""JVMs for throughput, or such as are up soon."""


@dataclass(frozen=True)
class Shared:
    """Where arms run.

    Attributes:
        class_archive: of JVMs that are to be up soon; None where they are for throughput.
        broker_data: folder of the broker's topics.

    """

    toolchain: Toolchain
    endpoints: Endpoints
    server: PostgresServer
    class_archive: Path | None
    broker_data: Path

    @property
    def long_lived(self) -> bool:
        """Whether JVMs are for throughput."""
        return self.class_archive is None


@contextmanager
def shared(path: Path, console: Console, needs: str, *, quick: bool) -> Iterator[Shared]:
    """Start it in the folder of a run; credentials are in the environment meanwhile.

    Args:
        path: of the run.
        console: told what is up.
        needs: what PostgreSQL is for, in a message where there is none.
        quick: JVMs that are up soon.

    Raises:
        RunError: there is no PostgreSQL.
        ServerError: a server does not start.

    """
    programs = find_postgres()
    if programs is None:
        raise RunError(f"{needs} needs a result store. {HOW}")
    toolchain, archive = prepare(console), None
    if quick:
        with console.step("class archive of Spark's JVMs (a training run)", expected_s=40):
            archive = class_archive(Cache(cache_root()), toolchain)
    with EmbeddedStack(path, toolchain, console.say, long_lived=not quick) as stack:
        os.environ["AWS_ACCESS_KEY_ID"] = stack.endpoints.s3_access_key
        os.environ["AWS_SECRET_ACCESS_KEY"] = stack.endpoints.s3_secret_key
        with result_store(RunDirectory(path), programs) as server:
            assert server is not None, "its programs are there"
            yield Shared(toolchain, stack.endpoints, server, archive, path.absolute() / "work" / "kafka")
