"""What somebody added to a table of `create` that may refuse a row: asked of the server's catalog at a start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import LiteralString

from effectively_once.sinks.database import PATIENCE_S, DatabaseAddress, connect, naming
from effectively_once.sinks.tables import Name, TableShape

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
UNION SELECT 'row-level security' FROM the WHERE row_security_active(oid)
ORDER BY 1
"""
_REFERS = """
SELECT conname FROM pg_constraint WHERE conrelid = to_regclass(%(table)s) AND contype = 'f'
    AND confrelid = ANY(SELECT to_regclass(other) FROM unnest(%(others)s::text[]) AS other) ORDER BY 1
"""


def added(address: DatabaseAddress, name: Name, shape: TableShape, patience_s: float = PATIENCE_S) -> list[str]:
    """Name what somebody added to a table of `create` that may refuse a row.

    Raises:
        PipelineError: Settings, Access or Unreachable, as `connect` does.

    """
    asked = {"table": ".".join(name), "key": sorted(shape.key), "columns": shape.schema.names}
    return _ask(address, name, _ADDED, asked, patience_s)


def refers(address: DatabaseAddress, name: Name, others: Iterable[Name], patience_s: float = PATIENCE_S) -> list[str]:
    """Name the foreign keys of a table that refer to some others.

    Raises:
        PipelineError: Settings, Access or Unreachable, as `connect` does.

    """
    asked = {"table": ".".join(name), "others": [".".join(other) for other in others]}
    return _ask(address, name, _REFERS, asked, patience_s)


def _ask(
    address: DatabaseAddress, name: Name, query: LiteralString, asked: Mapping[str, object], patience_s: float
) -> list[str]:
    there = ".".join(name)
    with naming(f"table {there} at {address.url}"), connect(address, f"look at {there}", patience_s) as session:
        return [what for (what,) in session.execute(query, asked).fetchall()]
