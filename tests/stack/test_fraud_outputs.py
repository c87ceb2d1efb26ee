"""The result store of a run of fraud detection on a real PostgreSQL: made anew, told of, dropped, and nobody else's."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from effectively_once_jobs.fraud.store import SCHEMA
from infra.embedded.job import RunError
from infra.embedded.postgres import PostgresServer
from tests.database import postgres
from tests.experiments.fraud.outputs import Outputs


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with postgres(tmp_path_factory.mktemp("outputs")) as running:
        yield running


def ask(server: PostgresServer, statement: bytes) -> list[tuple[object, ...]]:
    with server.connect() as connection:
        return connection.execute(statement).fetchall()


def test_a_run_makes_its_tables_anew_and_leaves_none(server: PostgresServer) -> None:
    outputs = Outputs(server)
    outputs.make(["c1", "c2"])
    outputs.make(["c3"])  # the former run was killed
    assert ask(server, b"SELECT card FROM fraud.cards") == [("c3",)]
    assert outputs.number() == 0
    outputs.drop()
    assert ask(server, b"SELECT 1 FROM pg_namespace WHERE nspname = 'fraud'") == []


def test_tables_of_a_deployed_pipeline_are_left_alone(server: PostgresServer) -> None:
    with server.connect() as connection:
        connection.execute(SCHEMA)
        connection.execute("INSERT INTO fraud.cards VALUES ('theirs')")
    try:
        with pytest.raises(RunError, match="a schema fraud that no run made"):
            Outputs(server).make(["c1"])
        Outputs(server).drop()
        assert ask(server, b"SELECT card FROM fraud.cards") == [("theirs",)]
    finally:
        with server.connect() as connection:
            connection.execute("DROP SCHEMA fraud CASCADE")


def test_a_server_that_was_started_again_says_since_when_it_runs(server: PostgresServer) -> None:
    outputs, before_ms = Outputs(server), time.time_ns() // 1_000_000
    first = outputs.began_ms()
    assert first is not None
    assert first <= before_ms
    server.stop()
    assert (outputs.began_ms(), outputs.number()) == (None, -1)
    server.restart()
    second = outputs.began_ms()
    assert second is not None
    assert before_ms <= second <= time.time_ns() // 1_000_000
