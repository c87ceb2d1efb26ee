"""The table that every arm writes its output to: counted while it is written, and read when the arm has ended."""

from __future__ import annotations

from psycopg import sql
from psycopg.rows import dict_row

from tests.experiments.two_ways.figures import RESULTS
from tests.harness.run_directory import RunDirectory
from tests.harness.stack.stack import Database


class Outputs:
    """Tables in one database, one for each pipeline."""

    def __init__(self, server: Database) -> None:
        self._server = server
        self._counting = server.connect()

    def drop(self, pipeline: str) -> None:
        """Delete a pipeline's table, where there is one."""
        with self._server.connect() as connection:
            connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(pipeline)))

    def count(self, pipeline: str) -> int:
        """Rows that are there."""
        asked = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(pipeline, RESULTS))
        row = self._counting.execute(asked).fetchone()
        return int(row[0]) if row else 0

    def write(self, run: RunDirectory, pipeline: str) -> None:
        """Write all rows below `observed/`."""
        asked = sql.SQL("SELECT id, amount, at_ms, times, same FROM {} ORDER BY at_ms, id")
        with self._server.connect() as connection, run.observed_writer(RESULTS) as lines:
            for row in connection.cursor(row_factory=dict_row).execute(asked.format(sql.Identifier(pipeline, RESULTS))):
                lines.write(row)

    def close(self) -> None:
        """End the session that counts."""
        self._counting.close()
