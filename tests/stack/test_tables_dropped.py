"""On a server that others use too: a run's tables are reached through a tunnel, and nothing of them is left."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import psycopg
import pytest

from effectively_once.sinks.database import PASSWORD, USER
from infra.embedded.postgres import PostgresServer
from tests.database import postgres
from tests.harness import with_table
from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.pod_database import PodDatabase
from tests.harness.adapters.server_pods import ServerPods
from tests.harness.adapters.tables import Tables
from tests.harness.adapters.tunnel import Tunnel
from tests.harness.sinks import ACCEPTED_ROWS

MARKS = "SELECT pipeline, count(*)::int FROM effectively_once.progress GROUP BY 1 ORDER BY 1"
SCHEMAS = "SELECT count(*)::int FROM pg_namespace WHERE nspname = 'uc_7'"


@contextmanager
def reached(server: PostgresServer) -> Iterator[PodDatabase]:
    """The server as one in a pod, at another address than it has there."""
    told = {USER: server.user, PASSWORD: server.password}
    pods = ServerPods(cast("Cluster", None), "result store", "", "postgres")
    one = PodDatabase(pods, f"postgresql://postgres.platform.svc:5432/{server.database}", told)
    host, port = server.url.rpartition("/")[0].rpartition("/")[2].split(":")
    one._tunnel = Tunnel(lambda: socket.create_connection((host, int(port)), timeout=5))
    one._tunnel.start()
    try:
        yield one
    finally:
        one._tunnel.stop()


def test_a_pipelines_tables_and_marks_are_deleted_and_no_others(tmp_path: Path) -> None:
    shape = with_table.pipeline.tables[ACCEPTED_ROWS]
    with postgres(tmp_path) as server, reached(server) as database:
        mine, other = Tables(database, "uc_7"), Tables(database, "uc_8")
        mine.make(ACCEPTED_ROWS, shape, 2)
        other.make(ACCEPTED_ROWS, shape, 3)
        with server.connect() as straight:
            straight.execute("INSERT INTO uc_7.accepted_rows (id) VALUES ('a')")
            assert mine.count(ACCEPTED_ROWS) == 1
            mine.drop()
            mine.drop()
            assert straight.execute(MARKS).fetchall() == [("uc_8", 3)]
            assert straight.execute(SCHEMAS).fetchall() == [(0,)]
        mine.make(ACCEPTED_ROWS, shape, 4)
        assert mine.count(ACCEPTED_ROWS) == other.count(ACCEPTED_ROWS) == 0


def test_a_server_that_was_away_is_reached_again_and_meanwhile_it_is_said(tmp_path: Path) -> None:
    with postgres(tmp_path) as server, reached(server) as database:
        server.kill()
        with pytest.raises(psycopg.OperationalError):
            database.connect()
        assert "refused" in database._tunnel.trouble
        server.restart()
        database.connect().close()
