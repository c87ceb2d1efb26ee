"""A schema of the result store that a job gives a fixed name: a run makes it anew, and leaves a deployed one alone."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg
from psycopg import sql

from infra.embedded.job import RunError
from tests.harness.stack.stack import Database

OURS = "of a run of the harness"
_WHOSE = "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = %s"


@dataclass(frozen=True)
class OwnSchema:
    """One schema.

    Attributes:
        database: the result store.
        name: of the schema.
        statements: SQL that makes it, with its tables.
    """

    database: Database
    name: str
    statements: str

    def make(self, cursor: psycopg.Cursor) -> None:
        """Make it anew, in the transaction of a cursor: a run that was killed may have left its own.

        Raises:
            RunError: there is one, and no run made it.
        """
        told = cursor.execute(_WHOSE, [self.name]).fetchone()
        if told is not None and told[0] != OURS:
            raise RunError(
                f"the result store has a schema {self.name} that no run made: a deployed pipeline's? A run would "
                f"delete it. Where nobody needs it any more: DROP SCHEMA {self.name} CASCADE"
            )
        cursor.execute(self._drop)
        cursor.execute(self.statements.encode())
        cursor.execute(sql.SQL("COMMENT ON SCHEMA {} IS {}").format(sql.Identifier(self.name), sql.Literal(OURS)))

    def drop(self) -> None:
        """Delete it, where a run made it. Raises psycopg.Error."""
        with self.database.connect() as connection:
            told = connection.execute(_WHOSE, [self.name]).fetchone()
            if told is not None and told[0] == OURS:
                connection.execute(self._drop)

    @property
    def _drop(self) -> sql.Composed:
        return sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(self.name))
