"""The harness' reader of a pipeline's tables counts their rows, and gives them as they are."""

from __future__ import annotations

from pathlib import Path

from psycopg import sql

from tests.database import postgres
from tests.harness import with_table
from tests.harness.adapters.tables import Tables
from tests.harness.sinks import ACCEPTED_ROWS

COLUMNS = ("topic", "partition", "offset", "id", "event_time_ms", "user", "payload", "crc")
ROWS = [("events", 1, 7, "a", 5, "u", "p", 9), ("events", 0, 8, "b", 6, "v", "q", 10)]


def test_rows_of_a_table_are_read_whole(tmp_path: Path) -> None:
    with postgres(tmp_path) as server:
        tables = Tables(server, "user_counts")
        tables.make(ACCEPTED_ROWS, with_table.pipeline.tables[ACCEPTED_ROWS], 2)
        assert (tables.count(ACCEPTED_ROWS), list(tables.rows(ACCEPTED_ROWS))) == (0, [])
        with server.connect() as connection, connection.cursor() as cursor:
            into = sql.SQL(
                "INSERT INTO user_counts.accepted_rows"
                ' (topic, partition, "offset", id, event_time_ms, "user", payload, crc)'
                " VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
            )
            cursor.executemany(into, ROWS)
        assert tables.count(ACCEPTED_ROWS) == 2
        assert sorted(tables.rows(ACCEPTED_ROWS), key=lambda row: row["id"]) == [
            dict(zip(COLUMNS, row, strict=True)) for row in ROWS
        ]
