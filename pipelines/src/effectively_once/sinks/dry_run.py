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

from effectively_once.sinks.database import Session
from effectively_once.sinks.tables import Name, TableShape, list_columns

# At the server: a refused row costs a millisecond of answers otherwise, and an epoch may have a million. The class of
# an error is looked at there, as whatever is not a row's fault ends the trial.
_EACH = """
DECLARE tried bigint;
BEGIN
    FOREACH tried IN ARRAY $1 LOOP
        BEGIN
            EXECUTE {insert} USING tried;
        EXCEPTION WHEN OTHERS OR assert_failure THEN
            GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, refuser = CONSTRAINT_NAME, field = COLUMN_NAME;
            IF left(code, 2) <> ALL({classes}::text[]) THEN RAISE; END IF;
            refused := tried;
            RETURN NEXT;
        END;
    END LOOP;
END
"""
InsertFrom = Callable[[sql.Composable], sql.Composed]
"""The sink's statement, given what it selects from."""
_STAGE = sql.Identifier("pg_temp", "tried")
_NUMBER = sql.Identifier("effectively_once_row")
_CLASSES = ("22", "23", "54", "P0")
"""Of SQLSTATE: data, integrity, a program's limits, and what a trigger raises. All else is said of no row."""
_FOREIGN_KEY = "23503"
_TOGETHER = 256
"""So many rows are tried one by one where one of them is refused: a halving of them takes as long."""


def find_refused(
    session: Session, name: Name, shape: TableShape, insert: InsertFrom, rows: Iterable[tuple[Any, ...]]
) -> dict[int, str]:
    """Try rows on a table; return the numbers of those that it refuses, and what refuses each. Nothing of them stays.

    Of rows that only together are too many (of one unique value), the first ones are kept. Where none is returned, the
    table has taken all of them in one statement.

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
    found = _find_by_halves(session, insert, number) if number and _refusal(session, insert, 0, number - 1) else {}
    session.execute("ROLLBACK")
    return found


def _find_by_halves(session: Session, insert: InsertFrom, number: int) -> dict[int, str]:
    """Find by halves what is refused of rows that were refused together."""
    session.execute(sql.SQL("CREATE INDEX ON {} ({})").format(_STAGE, _NUMBER))
    _make_each(session, insert)
    session.execute("SAVEPOINT begun")
    found: dict[int, tuple[str, str]] = {}
    whole = (0, number - 1)
    spans = [whole]
    while spans:
        first, last = span = spans.pop()
        if span != whole and _refusal(session, insert, first, last) is None:
            continue
        if last - first < _TOGETHER:
            found |= _each(session, range(first, last + 1))
            continue
        middle = (first + last) // 2
        spans += [(middle + 1, last), (first, middle)]
    _refer_to_later_rows(session, found)
    if not found:
        # A trigger of the whole statement refuses them, or it was for somebody else's row that is gone by now.
        session.execute("ROLLBACK TO SAVEPOINT begun")
        if (error := _refusal(session, insert, *whole)) is not None:
            raise error
    return {row: what for row, (_, what) in found.items()}


def _make_each(session: Session, insert: InsertFrom) -> None:
    one = insert(sql.SQL("(SELECT * FROM {} WHERE {} = $1) AS tried").format(_STAGE, _NUMBER)).as_string(session)
    body = sql.SQL(_EACH).format(insert=sql.Literal(one), classes=sql.Literal(list(_CLASSES))).as_string(session)
    session.execute(
        sql.SQL(
            "CREATE FUNCTION pg_temp.each_tried(bigint[], OUT refused bigint, OUT code text, OUT refuser text,"
            " OUT field text) RETURNS SETOF record LANGUAGE plpgsql AS {}"
        ).format(sql.Literal(body))
    )


def _each(session: Session, rows: Iterable[int]) -> dict[int, tuple[str, str]]:
    """Insert rows one by one; return the code of those that are refused, and what refuses them."""
    told = session.execute("SELECT * FROM pg_temp.each_tried(%s::bigint[])", [list(rows)]).fetchall()
    return {row: (code, _what(code, refuser, field)) for row, code, refuser, field in told}


def _refer_to_later_rows(session: Session, found: dict[int, tuple[str, str]]) -> None:
    """Take out what was refused only because the row that it refers to came after it."""
    left = [row for row, (code, _) in found.items() if code == _FOREIGN_KEY]
    while left:
        # Backwards: of a chain each one has the one after it.
        refused = [
            row
            for at in range(len(left), 0, -_TOGETHER)
            for row in _each(session, reversed(left[max(0, at - _TOGETHER) : at]))
        ]
        taken = {*left} - {*refused}
        for row in taken:
            del found[row]
        left = sorted(refused) if taken else []


def _stage(session: Session, name: Name, shape: TableShape, rows: Iterable[tuple[Any, ...]]) -> int:
    """Bring rows to the server, numbered, before the transaction that tries them holds any lock."""
    columns, number = list_columns(shape.schema.names), 0
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
        copy.set_types(["bigint", *shape.copy_types])
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


def _what(code: str, constraint: str, column: str) -> str:
    """Name the constraint, never a value."""
    if constraint:
        return constraint
    if column:
        return f"not null {column}"
    try:
        return pg.lookup(code).__name__
    except KeyError:
        # A trigger's own.
        return f"SQLSTATE {code}"
