"""What a campaign on one machine has beside the embedded stack: a link before the object store, and a result store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from effectively_once.sinks.database import PASSWORD, USER
from infra.embedded.postgres import PostgresServer
from infra.embedded.stack import EmbeddedStack
from tests.harness.adapters.store_link import StoreLink
from tests.harness.run_directory import RunDirectory


@contextmanager
def linked(stack: EmbeddedStack) -> Iterator[StoreLink]:
    """What stands between the pipeline and its object store, for as long as the block lasts."""
    host, _, port = stack.endpoints.s3_endpoint.rpartition("/")[2].partition(":")
    link = StoreLink(host, int(port))
    link.start()
    try:
        yield link
    finally:
        link.stop()


@contextmanager
def result_store(directory: RunDirectory, programs: Path | None) -> Iterator[PostgresServer | None]:
    """A PostgreSQL for as long as the block lasts, its credentials in the environment; None without its programs."""
    if programs is None:
        yield None
        return
    server = PostgresServer(directory.path / "work" / "postgres", directory.logs / "postgres.log", programs)
    try:
        server.start()
        with patch.dict(os.environ, {USER: server.user, PASSWORD: server.password}):
            yield server
    finally:
        server.stop()
        server.remove()
