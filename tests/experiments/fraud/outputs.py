"""The result store of a run: made, counted while it fills, read when all is decided, and dropped."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import psycopg
from psycopg.rows import dict_row

from effectively_once_jobs.fraud.store import SCHEMA
from tests.experiments.fraud.judge import DECISIONS, REFUSALS
from tests.experiments.own_schema import OwnSchema
from tests.harness.run_directory import RunDirectory
from tests.harness.stack.stack import Database

_COMMITTED = "(extract(epoch FROM pg_xact_commit_timestamp(xmin)) * 1000)::float8 AS committed_ms"
_DECISIONS = f"""
SELECT id, card, partition, "offset", arrived_ms, decided_ms, outcome, points, missing, partial, {_COMMITTED}
FROM fraud.decisions ORDER BY partition, "offset"
"""  # noqa: S608 - constants
_REFUSALS = f"""
SELECT id, partition, "offset", arrived_ms, reason, {_COMMITTED} FROM fraud.refusals ORDER BY partition, "offset"
"""  # noqa: S608 - constants
_NUMBER = "SELECT (SELECT count(*) FROM fraud.decisions) + (SELECT count(*) FROM fraud.refusals)"
_BEGAN = "SELECT (extract(epoch FROM pg_postmaster_start_time()) * 1000)::bigint"


class Outputs:
    """What the job writes."""

    def __init__(self, store: Database) -> None:
        self._store, self._schema = store, OwnSchema(store, "fraud", SCHEMA)

    def make(self, cards: Iterable[str]) -> None:
        """Make the job's tables and cards anew.

        Raises:
            RunError: there are such tables, and no run made them.
        """
        with self._store.connect() as connection, connection.transaction(), connection.cursor() as cursor:
            self._schema.make(cursor)
            cursor.executemany("INSERT INTO fraud.cards VALUES (%s)", [(card,) for card in cards])

    def number(self) -> int:
        """Records that have come to something; -1 while the store does not answer."""
        found = self._ask_number(_NUMBER)
        return -1 if found is None else found

    def began_ms(self) -> int | None:
        """When the store's server that answers now was started, by its own clock; None while none answers."""
        return self._ask_number(_BEGAN)

    def write(self, run: RunDirectory) -> None:
        """Write all of it below `observed/`."""
        with self._store.connect() as connection, connection.cursor(row_factory=dict_row) as cursor:
            for name, statement in ((DECISIONS, _DECISIONS), (REFUSALS, _REFUSALS)):
                with run.observed_writer(name) as lines:
                    for row in cursor.execute(statement):
                        lines.write(row)

    def drop(self) -> None:
        """Delete all of it; where the store does not answer the next run does so."""
        with suppress(psycopg.OperationalError):
            self._schema.drop()

    def _ask_number(self, statement: str) -> int | None:
        try:
            with self._store.connect() as connection:
                row: tuple[Any, ...] | None = connection.execute(statement.encode()).fetchone()
        except psycopg.OperationalError:
            return None
        return int(row[0]) if row else None
