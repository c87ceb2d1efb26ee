"""A PostgreSQL of a test's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from effectively_once.sinks.database import PASSWORD, USER
from infra.embedded.postgres import PostgresServer
from infra.toolchain.postgres import HOW, find_postgres


@contextmanager
def postgres(work: Path) -> Iterator[PostgresServer]:
    """Start a database; its credentials are in the environment meanwhile. Skips the test where there is none."""
    programs = find_postgres()
    if programs is None:
        pytest.skip(HOW)
    server = PostgresServer(work / "data", work / "postgres.log", programs)
    try:
        server.start()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(USER, server.user)
            patch.setenv(PASSWORD, server.password)
            yield server
    finally:
        server.stop()
        server.remove()
