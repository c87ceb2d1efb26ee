"""The output of the last operator: a table with the record's id as its key, so that writing twice is as writing once.

Beside the record it keeps what tells about the writing: how often the id came, and whether it always said the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby

from psycopg import sql

from effectively_once.sinks.database import DatabaseAddress, Session, connect, name_failures
from effectively_once_jobs.two_ways.running import Record

SCHEMA = """
DO $$ BEGIN IF to_regnamespace('{pipeline}') IS NULL THEN CREATE SCHEMA {pipeline}; END IF; END $$;
CREATE TABLE IF NOT EXISTS {pipeline}.results (
    id text PRIMARY KEY, "user" text NOT NULL, amount bigint NOT NULL,
    at_ms double precision NOT NULL DEFAULT extract(epoch FROM clock_timestamp()) * 1000,
    times integer NOT NULL DEFAULT 1, same boolean NOT NULL DEFAULT true);
"""
"""`at_ms` is when the row was first written."""


def schema_of(pipeline: str) -> str:
    """Return the SQL that makes the table of a pipeline; again, it changes nothing."""
    return sql.SQL(SCHEMA).format(pipeline=sql.Identifier(pipeline)).as_string(None)


_UPSERT = """
INSERT INTO {pipeline}.results AS r (id, "user", amount)
SELECT * FROM unnest(%s::text[], %s::text[], %s::bigint[])
ON CONFLICT (id) DO UPDATE SET times = r.times + 1, same = r.same AND r.amount = excluded.amount
"""


class ResultTable:
    """One session with the table of a pipeline."""

    def __init__(self, database: str, pipeline: str) -> None:
        self._address, self._pipeline = DatabaseAddress(database), pipeline
        self._session: Session | None = None

    def write(self, records: Sequence[Record]) -> None:
        """Write records in one transaction; one that is there stays as it is, and is counted.

        Raises:
            UnreachableError: the database does not answer; all of it is there, or nothing.
            SinkError: it refuses.

        """
        statement = sql.SQL(_UPSERT).format(pipeline=sql.Identifier(self._pipeline))
        with name_failures(self._address.url), self._open().transaction() as transaction:
            for some in _each_once(records):
                columns = [[getattr(one, name) for one in some] for name in ("id", "user", "amount")]
                transaction.connection.execute(statement, columns)

    def _open(self) -> Session:
        if self._session is None or self._session.closed:
            self._session = connect(self._address, f"two_ways {self._pipeline}")
        return self._session


def _each_once(records: Sequence[Record]) -> list[list[Record]]:
    """Divide records so that no part has an id twice, which one statement refuses; sorted, against deadlocks."""
    numbered = [
        (number, one)
        for _, copies in groupby(sorted(records, key=lambda one: one.id), lambda one: one.id)
        for number, one in enumerate(copies)
    ]
    most = max((number for number, _ in numbered), default=-1)
    return [[one for number, one in numbered if number == part] for part in range(most + 1)]


@lru_cache(maxsize=2)
def shared_table(database: str, pipeline: str) -> ResultTable:
    """Return this process's session: a Python worker takes one task after the other."""
    return ResultTable(database, pipeline)
