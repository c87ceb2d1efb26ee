"""The tables of PostgreSQL sinks: what they must look like, and how they are made before a pipeline starts.

`<pipeline>.<sink>` (schema and table) holds rows. `effectively_once.progress` holds the marks of all pipelines, a row a
shard, all of them made here: a sink that finds none is refused, so that a lost table is not taken for a new one.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from psycopg import sql

from effectively_once.errors import SettingsError, SinkError
from effectively_once.ledger import digest
from effectively_once.sinks.database import PATIENCE_S, DatabaseAddress, Session, connect, name_failures

COLUMN_TYPES = {
    pa.string(): "text",
    pa.int64(): "bigint",
    pa.int32(): "integer",
    pa.float64(): "double precision",
    pa.bool_(): "boolean",
    pa.binary(): "bytea",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp with time zone",
}
# Of a numeric with its digits: rows would be rounded to fewer without a word.
_COLUMNS = """
SELECT attname, format_type(atttypid, CASE atttypid WHEN 'numeric'::regtype THEN atttypmod END),
  attnotnull AND NOT atthasdef AND attidentity = ''
FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
_KEYS = """
SELECT array_agg(attname::text) FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY(indkey)
WHERE indrelid = to_regclass(%s) AND indisunique AND indpred IS NULL AND indexprs IS NULL GROUP BY indexrelid
"""
_IDENTITY = "SELECT oid::text, obj_description(oid, 'pg_class') FROM pg_class WHERE oid = to_regclass(%s)"
_COMMENT = "effectively-once {}"


TYPES = f"{', '.join(map(str, COLUMN_TYPES))}, decimal128(precision, scale)"
"""What a column can be of, in words."""


def column_type(kind: pa.DataType) -> str | None:
    """Return PostgreSQL's name of a column's type; None where no sink has such a column."""
    if pa.types.is_decimal128(kind) and 0 <= kind.scale <= kind.precision:
        return f"numeric({kind.precision},{kind.scale})"
    return COLUMN_TYPES.get(kind)


@dataclass(frozen=True)
class TableShape:
    """What a sink's rows are.

    Attributes:
        schema: columns of the Arrow tables that are published.
        key: empty to append every row, to a table without a unique key that could hide a double. Else rows replace
            those of equal key (upsert): an epoch may hold a key once, and all rows of a key must be in one shard.

    Raises:
        SettingsError: a column has a type that no table gets, or the key names another column.

    """

    schema: pa.Schema
    key: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what cannot be made."""
        wrong = [f"{column.name} ({column.type})" for column in self.schema if column_type(column.type) is None]
        wrong += [f"{name} (not a column)" for name in self.key if name not in self.schema.names]
        if wrong or not self.schema.names:
            raise SettingsError(
                f"columns that a table cannot have: {', '.join(wrong) or 'none at all'}",
                "shape of a PostgreSQL sink",
                f"Types are {TYPES}.",
            )

    @property
    def types(self) -> dict[str, str]:
        """Column -> PostgreSQL's name of its type."""
        return {column.name: str(column_type(column.type)) for column in self.schema}

    @property
    def copy_types(self) -> list[str]:
        """The same types as `COPY` is told them: without digits."""
        return [kind.partition("(")[0] for kind in self.types.values()]


@dataclass(frozen=True)
class Table:
    """A table as the server describes it: column -> type, columns that every row must give, columns of unique keys."""

    columns: Mapping[str, str]
    required: frozenset[str] = frozenset()
    keys: frozenset[frozenset[str]] = field(default_factory=frozenset)


MARKS = ("effectively_once", "progress")
MARKS_SHAPE = TableShape(
    pa.schema(
        [
            ("pipeline", pa.string()),
            ("sink", pa.string()),
            ("shard", pa.int32()),
            ("epoch", pa.int64()),
            ("generation", pa.int64()),
            ("rows", pa.int64()),
            ("digest", pa.string()),
        ]
    ),
    key=("pipeline", "sink", "shard"),
)
_MARKS_OF = sql.SQL("SELECT count(*), max(epoch) FROM {} WHERE pipeline = %s AND sink = %s").format(
    sql.Identifier(*MARKS)
)
_SEED = sql.SQL(
    "INSERT INTO {} SELECT %s, %s, shard, -1, 0, 0, %s FROM generate_series(0, %s) AS shard ON CONFLICT DO NOTHING"
).format(sql.Identifier(*MARKS))
Name = tuple[str, str]
"""Schema and table."""


def look(session: Session, name: Name) -> Table | None:
    """Describe a table, None when there is none."""
    text = ".".join(name)
    columns = session.execute(_COLUMNS, [text]).fetchall()
    if not columns:
        return None
    return Table(
        {column: kind for column, kind, _ in columns},
        frozenset(column for column, _, required in columns if required),
        frozenset(frozenset(key) for (key,) in session.execute(_KEYS, [text]).fetchall()),
    )


def refuse_other_shape(shape: TableShape, found: Table | None, name: Name) -> None:
    """Refuse a table that is missing, or that rows of this shape cannot go to.

    More columns may be there if they can be left out: a column is added to the table first, then a later version of the
    job gives it.

    Raises:
        SinkError: naming the columns, and the statement that adds those which are missing.

    """
    where = f"table {'.'.join(name)}"
    if found is None:
        raise SinkError("the table does not exist", where, "Run `effectively-once create` or restore the table.")
    missing = [f'"{column}" {kind}' for column, kind in shape.types.items() if column not in found.columns]
    if missing:
        added = ", ".join(f"ADD COLUMN {column}" for column in missing)
        raise SinkError(f"the table lacks {', '.join(missing)}", where, f'ALTER TABLE "{name[0]}"."{name[1]}" {added};')
    other = [
        f"{column} is {found.columns[column]} and must be {kind}"
        for column, kind in shape.types.items()
        if found.columns[column] != kind
    ]
    other += [f"{column} is required and not given" for column in sorted(found.required - shape.types.keys())]
    if shape.key and frozenset(shape.key) not in found.keys:
        other.append(f"no unique key is ({', '.join(shape.key)})")
    if other:
        raise SinkError(f"the table has other columns: {'; '.join(other)}", where, "Correct the table or the job.")


def identity(session: Session, name: Name) -> str:
    """Return what a table has not that was made anew: the id in its comment, where there is one, else its oid.

    `create` writes the comment. A dump keeps it, and gives the table another oid.
    """
    oid, comment = session.execute(_IDENTITY, [".".join(name)]).fetchone() or ("", None)
    found = re.search(_COMMENT.format(r"([0-9a-f]+)"), comment or "")
    return found[1] if found else str(oid)


def comment_with(own: str, name: Name) -> sql.Composed:
    """Return the statement that gives a table an identity of its own."""
    text = sql.Literal(_COMMENT.format(own))
    return sql.SQL("COMMENT ON TABLE {} IS {}").format(sql.Identifier(*name), text)


def check(address: DatabaseAddress, name: Name, shape: TableShape, patience_s: float = PATIENCE_S) -> str:
    """Look at a sink's table, refuse one that is missing or that rows of this shape cannot go to; return its identity.

    Raises:
        SinkError: see `refuse_other_shape`.
        PipelineError: Settings, Access or Unreachable, as `connect` does.

    """
    where = f"check {'.'.join(name)}"
    with name_failures(f"table {'.'.join(name)} at {address.url}"), connect(address, where, patience_s) as session:
        refuse_other_shape(shape, look(session, name), name)
        return identity(session, name)


def make(
    address: DatabaseAddress,
    pipeline: str,
    sink: str,
    shape: TableShape,
    shards: int,
    *,
    patience_s: float = PATIENCE_S,
    say: Callable[[str], object] = lambda _: None,
) -> None:
    """Make a sink's table and its marks. Safe to run again, and with others at once; nothing that exists is changed.

    Marks of more shards stay as they are: the pipeline had them before.

    Raises:
        SinkError: a table is there in another shape, or the marks say that epochs were published into a table that is
            gone.
        PipelineError: Settings, Access or Unreachable, as `connect` does.

    """
    name = (pipeline, sink)
    with (
        name_failures(f"table {'.'.join(name)} at {address.url}"),
        connect(address, f"create {'.'.join(name)}", patience_s) as session,
        session.transaction(),
    ):
        make_marks(session)
        _, last = session.execute(_MARKS_OF, name).fetchone() or (0, None)
        if last is not None and last >= 0 and look(session, name) is None:
            raise SinkError(
                f"the table is gone, and epochs up to {last} were published into it",
                f"table {'.'.join(name)}",
                "Restore it together with its marks, or give the pipeline another name to publish everything anew.",
            )
        _make(session, name, shape)
        session.execute(_SEED, [*name, digest.EMPTY, shards - 1])
    say(f"table {'.'.join(name)} is there, with marks of {shards} shards")


def make_marks(session: Session) -> None:
    """Make the table of marks unless it is there; the transaction of `session` excludes others that make tables.

    Raises:
        SinkError: it is there in another shape.

    """
    # Two that make a schema at once: the loser would fail, whatever it asked for.
    session.execute("SELECT pg_advisory_xact_lock(hashtext('effectively_once'))")
    _make(session, MARKS, MARKS_SHAPE)


def _make(session: Session, name: Name, shape: TableShape) -> None:
    """Make a table unless it is there, and its schema; then look at it."""
    if look(session, name) is None:
        # IF NOT EXISTS would ask for the right to make a schema even where it exists.
        if session.execute("SELECT to_regnamespace(%s) IS NULL", [name[0]]).fetchone() == (True,):
            session.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name[0])))
        parts = [sql.SQL("{} {}").format(sql.Identifier(n), sql.SQL(kind)) for n, kind in shape.types.items()]
        if shape.key:
            parts.append(sql.SQL("PRIMARY KEY ({})").format(list_columns(shape.key)))
        session.execute(sql.SQL("CREATE TABLE {} ({})").format(sql.Identifier(*name), sql.SQL(", ").join(parts)))
        session.execute(comment_with(uuid.uuid4().hex, name))
    refuse_other_shape(shape, look(session, name), name)


def list_columns(names: tuple[str, ...] | list[str]) -> sql.Composed:
    """Column names, quoted, with commas between."""
    return sql.SQL(", ").join(map(sql.Identifier, names))
