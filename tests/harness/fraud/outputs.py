"""The result store of a run: made, counted while it fills, and read when all is decided."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import psycopg
from psycopg.rows import dict_row

from effectively_once_jobs.fraud.store import SCHEMA
from infra.embedded.postgres import PostgresServer
from tests.harness.fraud.judge import DECISIONS, REFUSALS
from tests.harness.run_directory import RunDirectory

_COMMITTED = "(extract(epoch FROM pg_xact_commit_timestamp(xmin)) * 1000)::float8 AS committed_ms"
_DECISIONS = f"""
SELECT id, card, partition, "offset", arrived_ms, decided_ms, outcome, points, missing, partial, {_COMMITTED}
FROM fraud.decisions ORDER BY partition, "offset"
"""  # noqa: S608 - constants
_REFUSALS = f"""
SELECT id, partition, "offset", arrived_ms, reason, {_COMMITTED} FROM fraud.refusals ORDER BY partition, "offset"
"""  # noqa: S608 - constants
_NUMBER = "SELECT (SELECT count(*) FROM fraud.decisions) + (SELECT count(*) FROM fraud.refusals)"


class Outputs:
    """What the job writes."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server

    def make(self, cards: Iterable[str]) -> None:
        """Make the job's tables and cards, and have the server note when transactions commit."""
        with self._server.connect() as connection, connection.cursor() as cursor:
            cursor.execute(SCHEMA)
            cursor.executemany("INSERT INTO fraud.cards VALUES (%s)", [(card,) for card in cards])

    def number(self) -> int:
        """Records that have come to something; -1 while the store does not answer."""
        try:
            with self._server.connect() as connection:
                row: tuple[Any, ...] | None = connection.execute(_NUMBER).fetchone()
        except psycopg.OperationalError:
            return -1
        return int(row[0]) if row else -1

    def write(self, run: RunDirectory) -> None:
        """Write all of it below `observed/`."""
        with self._server.connect() as connection, connection.cursor(row_factory=dict_row) as cursor:
            for name, statement in ((DECISIONS, _DECISIONS), (REFUSALS, _REFUSALS)):
                with run.observed_writer(name) as lines:
                    for row in cursor.execute(statement):
                        lines.write(row)
