"""Which rows a table refuses for what somebody added to it, asked before anything of their epoch is visible.

Types and texts are proven without a server (`publishable`). What is left are constraints, indexes and triggers that
`create` does not make: rows are written in a transaction that is rolled back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import psycopg
from psycopg import errors as pg
from psycopg import sql

from effectively_once.sinks.database import PATIENCE_S, DatabaseAddress, Session, connect, naming
from effectively_once.sinks.tables import Name, TableShape, listed

# Somebody's unique index may be partial, or over an expression: it names no columns then.
_ADDED = """
WITH the AS (SELECT oid, relkind FROM pg_class WHERE oid = to_regclass(%(table)s))
SELECT 'constraint ' || conname FROM pg_constraint, the WHERE conrelid = the.oid AND contype IN ('c', 'f', 'x', 't')
UNION SELECT 'unique index ' || indexrelid::regclass FROM pg_index, the WHERE indrelid = the.oid AND indisunique
    AND (indpred IS NOT NULL OR indexprs IS NOT NULL OR %(key)s::text[] <> (
        SELECT array_agg(attname::text ORDER BY attname::text COLLATE "C") FROM pg_attribute
        WHERE attrelid = the.oid AND attnum = ANY(indkey)))
UNION SELECT 'not null ' || attname FROM pg_attribute, the WHERE attrelid = the.oid AND attnum > 0 AND attnotnull
    AND NOT attisdropped AND attname = ANY(%(columns)s::text[]) AND attname <> ALL(%(key)s::text[])
UNION SELECT 'generated column ' || attname FROM pg_attribute, the WHERE attrelid = the.oid AND attgenerated <> ''
UNION SELECT 'trigger ' || tgname FROM pg_trigger, the WHERE tgrelid = the.oid AND NOT tgisinternal
UNION SELECT 'rule ' || rulename FROM pg_rewrite, the WHERE ev_class = the.oid
UNION SELECT 'partitions' FROM the WHERE relkind = 'p'
ORDER BY 1
"""
InsertFrom = Callable[[sql.Composable], sql.Composed]
"""The sink's statement, given what it selects from."""
_STAGE = sql.Identifier("pg_temp", "tried")
_NUMBER = sql.Identifier("effectively_once_row")
_CLASSES = ("22", "23", "54", "P0")
"""Of SQLSTATE: data, integrity, a program's limits, and what a trigger raises. All else is said of no row."""


def added(address: DatabaseAddress, name: Name, shape: TableShape, patience_s: float = PATIENCE_S) -> list[str]:
    """Name what somebody added to a table of `create` that may refuse a row.

    Raises:
        PipelineError: Settings, Access or Unreachable, as `connect` does.

    """
    asked = {"table": ".".join(name), "key": sorted(shape.key), "columns": shape.schema.names}
    there = ".".join(name)
    with naming(f"table {there} at {address.url}"), connect(address, f"look at {there}", patience_s) as session:
        return [what for (what,) in session.execute(_ADDED, asked).fetchall()]


def refused(
    session: Session, name: Name, shape: TableShape, insert: InsertFrom, rows: Iterable[tuple[Any, ...]]
) -> dict[int, str]:
    """Try rows on a table; return the numbers of those that it refuses, and what refuses each. Nothing of them stays.

    Of rows that only together are too many (of one unique value), the first ones are kept.

    Args:
        session: one that commits by itself; after an error it is of no use.
        name: the table.
        shape: of the rows.
        insert: what the sink does with rows.
        rows: in order.

    Raises:
        psycopg.Error: the server fails, or refuses for what is no row's fault.

    """
    number = _stage(session, name, shape, rows)
    session.execute("BEGIN")
    session.execute("SET CONSTRAINTS ALL IMMEDIATE")
    found: dict[int, psycopg.Error] = {}
    spans = [(0, number - 1)] if number else []
    while spans:
        first, last = spans.pop()
        error = _refusal(session, insert, first, last)
        if error is None:
            continue
        if first == last:
            found[first] = error
            continue
        if last - first == number - 1:
            session.execute(sql.SQL("CREATE INDEX ON {} ({})").format(_STAGE, _NUMBER))
        middle = (first + last) // 2
        spans += [(middle + 1, last), (first, middle)]
    _refer_to_later_rows(session, insert, found)
    session.execute("ROLLBACK")
    return {row: _what(error) for row, error in found.items()}


def _refer_to_later_rows(session: Session, insert: InsertFrom, found: dict[int, psycopg.Error]) -> None:
    """Take out what was refused only because the row that it refers to came after it."""
    again = True
    while again:
        again = False
        for row in [row for row, error in found.items() if isinstance(error, pg.ForeignKeyViolation)]:
            if _refusal(session, insert, row, row) is None:
                del found[row]
                again = True


def _stage(session: Session, name: Name, shape: TableShape, rows: Iterable[tuple[Any, ...]]) -> int:
    """Bring rows to the server, numbered, before the transaction that tries them holds any lock."""
    columns, number = listed(shape.schema.names), 0
    session.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(_STAGE))
    session.execute(
        sql.SQL("CREATE TEMPORARY TABLE tried AS SELECT 0::bigint AS {}, {} FROM {} WITH NO DATA").format(
            _NUMBER, columns, sql.Identifier(*name)
        )
    )
    with (
        session.cursor() as cursor,
        cursor.copy(sql.SQL("COPY {} FROM STDIN (FORMAT BINARY)").format(_STAGE)) as copy,
    ):
        copy.set_types(["bigint", *shape.types.values()])
        for row in rows:
            copy.write_row((number, *row))
            number += 1
    return number


def _refusal(session: Session, insert: InsertFrom, first: int, last: int) -> psycopg.Error | None:
    """Insert some rows; where one of them is refused, none of them is there, and the error is returned."""
    part = sql.SQL("(SELECT * FROM {} WHERE {} BETWEEN {} AND {} ORDER BY {}) AS tried").format(
        _STAGE, _NUMBER, first, last, _NUMBER
    )
    refusal = None
    session.execute("SAVEPOINT tried")
    try:
        session.execute(insert(part))
    except psycopg.Error as error:
        if (error.sqlstate or "")[:2] not in _CLASSES:
            raise
        session.execute("ROLLBACK TO SAVEPOINT tried")
        refusal = error
    session.execute("RELEASE SAVEPOINT tried")
    return refusal


def _what(error: psycopg.Error) -> str:
    """Name the constraint, never a value."""
    told = error.diag
    if told.constraint_name:
        return told.constraint_name
    return f"not null {told.column_name}" if told.column_name else type(error).__name__
