"""What somebody added to a table of `create` that may refuse a row: asked of the server's catalog."""

from __future__ import annotations

from dataclasses import dataclass

from effectively_once.sinks.database import Session
from effectively_once.sinks.tables import Name, TableShape

# Somebody's unique index may be partial, or over an expression: it names no columns then.
_ADDED = """
WITH the AS (SELECT oid, relkind FROM pg_class WHERE oid = to_regclass(%(table)s)),
homes AS (SELECT array_agg(attnum) AS attnums FROM pg_attribute, the
    WHERE attrelid = the.oid AND NOT attisdropped AND attname = ANY(%(by)s::text[])
    HAVING count(*) = cardinality(%(by)s::text[]))
SELECT 'added', 'constraint ' || conname FROM pg_constraint, the
    WHERE conrelid = the.oid AND contype IN ('c', 'f', 'x', 't')
UNION SELECT 'added', 'unique index ' || indexrelid::regclass FROM pg_index, the
    WHERE indrelid = the.oid AND indisunique
    AND (indpred IS NOT NULL OR indexprs IS NOT NULL OR %(key)s::text[] <> (
        SELECT array_agg(attname::text ORDER BY attname::text COLLATE "C") FROM pg_attribute
        WHERE attrelid = the.oid AND attnum = ANY(indkey)))
UNION SELECT 'added', 'not null ' || attname FROM pg_attribute, the
    WHERE attrelid = the.oid AND attnum > 0 AND attnotnull
    AND NOT attisdropped AND attname = ANY(%(columns)s::text[]) AND attname <> ALL(%(key)s::text[])
UNION SELECT 'added', 'generated column ' || attname FROM pg_attribute, the
    WHERE attrelid = the.oid AND attgenerated <> ''
UNION SELECT 'added', 'trigger ' || tgname FROM pg_trigger, the WHERE tgrelid = the.oid AND NOT tgisinternal
UNION SELECT 'added', 'rule ' || rulename FROM pg_rewrite, the WHERE ev_class = the.oid
UNION SELECT 'added', 'partitions' FROM the WHERE relkind = 'p'
UNION SELECT 'added', 'row-level security' FROM the WHERE row_security_active(oid)

UNION SELECT 'beyond', 'unique index ' || indexrelid::regclass FROM pg_index, the
    WHERE %(shards)s > 1 AND indrelid = the.oid AND indisunique AND NOT EXISTS (
        SELECT FROM homes WHERE attnums <@ ARRAY(
            SELECT part FROM unnest(indkey::int2[]) WITH ORDINALITY AS it(part, place) WHERE place <= indnkeyatts))
UNION SELECT 'beyond', 'constraint ' || conname FROM pg_constraint, the
    WHERE %(shards)s > 1 AND conrelid = the.oid AND contype = 'x' AND NOT EXISTS (
        SELECT FROM homes WHERE attnums <@ ARRAY(
            SELECT part FROM unnest(conkey, conexclop) AS it(part, op) JOIN pg_operator ON pg_operator.oid = op
            WHERE oprname = '='))
UNION SELECT 'beyond', 'constraint ' || conname FROM pg_constraint, the
    WHERE %(shards)s > 1 AND conrelid = the.oid AND contype = 'f' AND confrelid = the.oid
UNION SELECT 'beyond', 'trigger ' || tgname FROM pg_trigger, the
    WHERE tgrelid = the.oid AND NOT tgisinternal AND (tgtype & 1) = 0 AND (tgtype & 20) <> 0

UNION SELECT 'refers', 'constraint ' || conname FROM pg_constraint, the
    WHERE conrelid = the.oid AND contype = 'f'
    AND confrelid = ANY(SELECT to_regclass(other) FROM unnest(%(others)s::text[]) AS other)
ORDER BY 1, 2
"""


@dataclass(frozen=True, slots=True)
class Added:
    """What somebody added to a table, by PostgreSQL's names.

    Attributes:
        all: all that may refuse a row.
        beyond: those of it of which a trial of the rows of one shard cannot tell. A unique index or an exclusion that
            leaves out what rows are sharded by: two shards may break it together. A foreign key to the table itself: a
            row may refer to one of another shard. A trigger of a whole statement: what it refuses is no row's fault.
        refers: foreign keys to other tables of the pipeline, whose rows come with the same epoch.

    """

    all: tuple[str, ...] = ()
    beyond: tuple[str, ...] = ()
    refers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AskedTable:
    """A table that is asked about.

    Attributes:
        name: schema and table.
        shape: as `create` makes it.
        by: columns of which rows with equal values are in one shard.
        others: the other tables of the pipeline.
        shards: how many there are.

    """

    name: Name
    shape: TableShape
    by: tuple[str, ...]
    others: tuple[Name, ...] = ()
    shards: int = 1


def find_added(session: Session, asked: AskedTable) -> Added:
    """Name what somebody added to a table of `create`.

    Raises:
        psycopg.Error: the server fails.

    """
    given = {
        "table": ".".join(asked.name),
        "key": sorted(asked.shape.key),
        "columns": asked.shape.schema.names,
        "by": list(asked.by),
        "shards": asked.shards,
        "others": [".".join(other) for other in asked.others],
    }
    found: dict[str, list[str]] = {"added": [], "beyond": [], "refers": []}
    for part, what in session.execute(_ADDED, given).fetchall():
        found[part].append(what)
    return Added(*map(tuple, found.values()))
