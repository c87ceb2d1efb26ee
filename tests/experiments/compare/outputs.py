"""The result store of a comparison: made, switched to failing, and read when a pipeline has ended."""

from __future__ import annotations

from collections.abc import Iterable

from psycopg import sql
from psycopg.rows import dict_row

from effectively_once_jobs.system_usage.store import SCHEMA
from tests.experiments.compare.figures import ASKED, COUNTED, USAGE
from tests.experiments.own_schema import OwnSchema
from tests.harness.run_directory import RunDirectory
from tests.harness.stack.stack import Database

_ROWS = """
SELECT id, "user", partition, "offset", fraud, extract(epoch FROM pg_xact_commit_timestamp(xmin)) * 1000 AS at_ms
FROM {} ORDER BY pg_xact_commit_timestamp(xmin), ctid
"""


class Outputs:
    """What the job asks and what it writes, in one database."""

    def __init__(self, server: Database) -> None:
        self._server, self._schema = server, OwnSchema(server, "system_usage", SCHEMA)

    def make(self, decisions: Iterable[tuple[str, bool]]) -> None:
        """Make the job's schema anew, and tell the result store what it knows.

        Raises:
            RunError: there is one that no run made.

        """
        with self._server.connect() as connection, connection.transaction(), connection.cursor() as cursor:
            self._schema.make(cursor)
            with cursor.copy("COPY system_usage.decisions FROM STDIN") as copy:
                for row in decisions:
                    copy.write_row(row)
            cursor.execute("ANALYZE system_usage.decisions")

    def drop(self, pipeline: str | None = None) -> None:
        """Delete a pipeline's tables; None: the job's own schema."""
        if pipeline is None:
            self._schema.drop()
            return
        with self._server.connect() as connection:
            connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(pipeline)))

    def fails(self, who: str, seed: int, rate: float) -> None:
        """Have look-ups fail at a rate from now on; those of a pipeline are numbered from 1 again."""
        with self._server.connect() as connection, connection.transaction():
            connection.execute("UPDATE system_usage.failing SET seed = %s, rate = %s", [seed, rate])
            connection.execute("DELETE FROM system_usage.calls WHERE who = %s", [who])

    def write(self, run: RunDirectory, who: str) -> int:
        """Write what a pipeline counted and asked below `observed/`; the bytes of its tables."""
        with self._server.connect() as connection, connection.cursor(row_factory=dict_row) as cursor:
            counted, usage = (sql.Identifier(who, name) for name in (COUNTED, USAGE))
            asked = "SELECT id, count(*) AS times FROM system_usage.asked WHERE who = %s GROUP BY id"
            calls = """
                SELECT count(*) AS calls, count(*) FILTER (WHERE failed) AS failed
                FROM (SELECT DISTINCT failed, xmin::text FROM system_usage.asked WHERE who = %s) AS each"""
            self._rows(run, COUNTED, cursor.execute(sql.SQL(_ROWS).format(counted)))
            self._rows(run, USAGE, cursor.execute(sql.SQL("SELECT * FROM {}").format(usage)))
            self._rows(run, ASKED, cursor.execute(asked, [who]))
            self._rows(run, "calls", cursor.execute(calls, [who]))
            sizes = """
                SELECT sum(pg_total_relation_size(oid)) AS bytes
                FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind = 'r'"""
            found = cursor.execute(sizes, [who]).fetchone()
            return int((found or {}).get("bytes") or 0)

    def _rows(self, run: RunDirectory, name: str, rows: Iterable[dict[str, object]]) -> None:
        with run.observed_writer(name) as lines:
            for row in rows:
                at_ms = {"at_ms": float(str(row["at_ms"]))} if "at_ms" in row else {}
                lines.write({**row, **at_ms})
