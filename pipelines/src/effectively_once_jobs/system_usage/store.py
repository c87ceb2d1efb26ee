"""The result store as the job sees it: a look-up that can fail, and two tables to which counts are added.

The look-up is a procedure of the database, `system_usage.look_up`. It writes down who asked for which ids and commits
that, so that a look-up that fails is in the log as well. Then it fails at the rate that `system_usage.failing` holds:
whether it does is a function of the seed and of the number of the call, the same for everybody who asks.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import psycopg
import pyarrow as pa
from psycopg import sql

from effectively_once.errors import PipelineError
from effectively_once.sinks.database import DatabaseAddress, Session, connect
from effectively_once_jobs.system_usage.usage import COUNTED, USAGE, add_up, as_rows

SCHEMA = """
DO $$ BEGIN IF to_regnamespace('system_usage') IS NULL THEN CREATE SCHEMA system_usage; END IF; END $$;
CREATE TABLE IF NOT EXISTS system_usage.decisions (id text PRIMARY KEY, fraud boolean NOT NULL);
CREATE TABLE IF NOT EXISTS system_usage.failing (
    seed bigint NOT NULL, rate double precision NOT NULL CHECK (rate BETWEEN 0 AND 1)
);
INSERT INTO system_usage.failing SELECT 0, 0 WHERE NOT EXISTS (SELECT FROM system_usage.failing);
CREATE TABLE IF NOT EXISTS system_usage.calls (who text PRIMARY KEY, number bigint NOT NULL);
CREATE TABLE IF NOT EXISTS system_usage.asked (
    who text NOT NULL, call bigint NOT NULL, id text NOT NULL, failed boolean NOT NULL
);
CREATE OR REPLACE PROCEDURE system_usage.look_up(asking text, ids text[], INOUT frauds jsonb) LANGUAGE plpgsql AS $$
DECLARE
    nth bigint;
    fails boolean;
BEGIN
    INSERT INTO system_usage.calls AS c VALUES (asking, 1)
        ON CONFLICT (who) DO UPDATE SET number = c.number + 1 RETURNING number INTO nth;
    SELECT ('x' || left(md5(seed || ':' || nth), 8))::bit(32)::bigint < rate * 4294967296 INTO fails
        FROM system_usage.failing;
    INSERT INTO system_usage.asked SELECT asking, nth, unnest(ids), fails;
    COMMIT;
    IF fails THEN
        RAISE EXCEPTION 'the result store gives no answer to call %', nth;
    END IF;
    SELECT jsonb_object_agg(id, fraud) INTO frauds FROM system_usage.decisions WHERE id = ANY(ids);
END $$;
"""
"""Who makes the result store runs this; again, it changes nothing."""
_LOOK_UP = "CALL system_usage.look_up(%s, %s, NULL)"


class LookUpError(Exception):
    """The result store gave no answer: the semantics decide what becomes of the events."""


class ResultStore:
    """One session with the result store.

    Args:
        database: postgresql://host:port/database; user and password are in the environment.
        who: name of the pipeline: in the log of look-ups, and the schema of the tables that counts go to.

    """

    def __init__(self, database: str, who: str) -> None:
        self._address, self._who = DatabaseAddress(database), who
        self._session: Session | None = None

    def frauds(self, ids: list[str]) -> dict[str, bool]:
        """Look ids up: which are of frauds. Ids that it does not know are left out.

        Raises:
            LookUpError: it gives no answer.

        """
        try:
            row = self._open().execute(_LOOK_UP, [self._who, ids]).fetchone()
        except (psycopg.Error, PipelineError) as error:
            self._give_up(error)
            raise LookUpError(str(error).splitlines()[0]) from error
        return dict((row and row[0]) or {})

    def count(self, rows: pa.Table, window_ms: int) -> None:
        """Add events to both tables in one transaction. A repeat adds them once more: nothing remembers that it did.

        Raises:
            LookUpError: the result store does not take them, or took them and did not say so.

        """
        try:
            with self._open().transaction():
                self._insert("counted", COUNTED, as_rows(rows))
                self._insert("usage", USAGE, [value for row in add_up(rows, window_ms) for value in row])
        except (psycopg.Error, PipelineError) as error:
            self._give_up(error)
            raise LookUpError(str(error).splitlines()[0]) from error

    def _insert(self, table: str, columns: tuple[str, ...], values: list[Any]) -> None:
        row = sql.SQL("({})").format(sql.SQL(", ").join([sql.Placeholder()] * len(columns)))
        self._open().execute(
            sql.SQL("INSERT INTO {} ({}) VALUES {}").format(
                sql.Identifier(self._who, table),
                sql.SQL(", ").join(map(sql.Identifier, columns)),
                sql.SQL(", ").join([row] * (len(values) // len(columns))),
            ),
            values,
        )

    def _open(self) -> Session:
        if self._session is None:
            self._session = connect(self._address, f"system_usage {self._who}")
        return self._session

    def _give_up(self, error: Exception) -> None:
        """Forget a session that is broken; one in which a statement failed is as good as before."""
        if self._session is not None and (self._session.closed or isinstance(error, psycopg.OperationalError)):
            self._session.close()
            self._session = None


@lru_cache(maxsize=2)
def shared_store(database: str, who: str) -> ResultStore:
    """Return this process's session: a Python worker takes one task after the other."""
    return ResultStore(database, who)
