"""The PostgreSQL sink: rows and progress mark of a shard in one transaction, whose first statement takes the mark (R8).

Rows go into a table of the session's own before that transaction begins. While it holds the mark's lock it waits for
nothing of the client but its next statement, which has a time-out; the data of a COPY have none, so a process that is
stopped in the middle of one would keep every later one from the shard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pyarrow as pa
from psycopg import sql

from effectively_once.errors import SinkError
from effectively_once.ledger import digest
from effectively_once.ledger.rows import Rows
from effectively_once.sinks import dry_run
from effectively_once.sinks.database import PATIENCE_S, DatabaseAddress, Session, connect, name_error, name_failures
from effectively_once.sinks.publish import Committed, Mark
from effectively_once.sinks.tables import MARKS, Name, TableShape, list_columns, look, refuse_other_shape
from effectively_once.sinks.transaction import TransactionalSink

_SHARD = sql.SQL("WHERE pipeline = %(pipeline)s AND sink = %(sink)s AND shard = %(shard)s")
_MARKS = sql.Identifier(*MARKS)
_READ = sql.SQL("SELECT epoch, generation, rows, digest FROM {} {}").format(_MARKS, _SHARD)
_FENCE = sql.SQL("UPDATE {} SET generation = greatest(generation, %(generation)s) {}").format(_MARKS, _SHARD)
_ADVANCE = sql.SQL(
    "UPDATE {} SET epoch = %(epoch)s, generation = %(generation)s, rows = %(rows)s, digest = %(digest)s {}"
    " AND epoch = %(epoch)s - 1 AND generation <= %(generation)s"
).format(_MARKS, _SHARD)
_BEGIN = sql.SQL("UPDATE {} SET epoch = %(epoch)s, rows = 0, digest = %(digest)s {} AND epoch < %(epoch)s").format(
    _MARKS, _SHARD
)


@dataclass(frozen=True, slots=True)
class TableAddress:
    """One shard of one PostgreSQL sink."""

    database: DatabaseAddress
    pipeline: str
    sink: str
    shard: int

    @property
    def table(self) -> Name:
        """Where rows go."""
        return self.pipeline, self.sink

    @property
    def key(self) -> dict[str, Any]:
        """The shard's row in the table of marks."""
        return {"pipeline": self.pipeline, "sink": self.sink, "shard": self.shard}

    def __str__(self) -> str:
        """As messages name it."""
        return f"sink {self.sink} shard {self.shard}"


class TableSink(TransactionalSink[pa.Table]):
    """Publishes the epochs of one shard, Arrow tables of the shape's columns; keeps its session between them."""

    def __init__(
        self,
        address: TableAddress,
        shape: TableShape,
        announce: Callable[[str], None] = lambda _: None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """`patience_s` is how long the server may stay silent."""
        super().__init__(str(address), announce)
        self.address, self.shape = address, shape
        self._patience_s = patience_s
        self._session: Session | None = None
        self._insert = self._insert_from(sql.SQL("pg_temp.staged"))
        self._there = f"table {'.'.join(address.table)} at {address.database.url}"

    def close(self) -> None:
        """Close the session; the next epoch opens another."""
        if self._session is not None:
            self._session.close()
        self._session = None

    def find_refused(self, generation: int, rows: pa.Table) -> dict[int, str]:
        """Try rows without publishing them: the numbers of those that the table refuses, and what refuses each.

        Raises:
            PipelineError: as `publish` does.

        """
        self._describe(rows)
        with name_failures(self._there):
            if self._session is not None:
                try:
                    return self._try(rows)
                except psycopg.Error as error:
                    # It may have ended since the last epoch: a commit opens another one, too.
                    if name_error(error, self._there) is not None:
                        raise
            self._kept = None
            self._open(generation)
            return self._try(rows)

    def _try(self, rows: pa.Table) -> dict[int, str]:
        session = self._session
        assert session is not None  # noqa: S101 - find_refused() opens before it tries
        try:
            return dry_run.find_refused(session, self.address.table, self.shape, self._insert_from, _tuples(rows))
        except psycopg.Error:
            self._kept = None
            self.close()
            raise

    def _describe(self, rows: pa.Table, like: str = digest.EMPTY) -> Rows:
        if rows.schema.names != self.shape.schema.names or rows.schema.types != self.shape.schema.types:
            raise SinkError(
                f"the job gives columns {rows.schema.names}, the sink was declared with {self.shape.schema.names}",
                str(self.address),
                "Give the declared columns, of the declared types.",
            )
        if self.shape.key and len(set(_tuples(rows.select(self.shape.key)))) < rows.num_rows:
            raise SinkError(
                f"two rows of an epoch have one key ({', '.join(self.shape.key)}): which of them stays is undecided",
                str(self.address),
                "Reduce them to one in the job.",
            )
        return Rows(rows=rows.num_rows, digest=digest.of_rows_in(rows, like), bytes=rows.nbytes)

    def _open(self, generation: int) -> None:
        self.close()
        address = self.address

        def prepare(session: Session) -> None:
            refuse_other_shape(self.shape, look(session, address.table), address.table)
            # It waits for the lock of whoever is about to commit; afterwards no older generation does.
            if session.execute(_FENCE, {**address.key, "generation": generation}).rowcount == 0:
                raise _without_mark(address)
            session.execute(_staging_table(address, self.shape))

        name = f"{address.pipeline}.{address.sink}.{address.shard}"
        self._session = connect(address.database, name, self._patience_s, prepare)

    def _read_mark(self) -> Mark | None:
        assert self._session is not None  # noqa: S101 - publish() opens before it reads
        with name_failures(self._there):
            return _mark(self._session, self.address)

    def _commit(self, mark: Mark, rows: pa.Table) -> Committed:
        session = self._session
        assert session is not None  # noqa: S101 - publish() opens before it commits
        values = {"epoch": mark.epoch, "generation": mark.generation, "rows": mark.rows, "digest": mark.digest}
        try:
            if mark.rows:
                self._stage(session, rows)
            session.execute("BEGIN")
            if session.execute(_ADVANCE, {**self.address.key, **values}).rowcount == 0:
                session.execute("ROLLBACK")
                return Committed.REFUSED
            if mark.rows:
                session.execute(self._insert)
            self.announce("transaction_open")
            session.execute("COMMIT")
        except psycopg.Error as error:
            self.close()
            refused = name_error(error, self._there)
            if refused is not None:
                raise refused from error
            # The next session waits for this one's end, if it is not over, and the mark tells which way.
            return Committed.UNKNOWN
        self.announce("committed")
        return Committed.YES

    def begin(self, epoch: int, generation: int) -> Mark | None:
        """Give a shard that is new to a chain the mark of its last recorded epoch, over nothing; again, it is a no-op.

        Returns:
            The mark that is there now.

        Raises:
            PipelineError: as `publish` does.

        """
        self._kept = None
        self._open(generation)
        assert self._session is not None  # noqa: S101 - it was opened
        with name_failures(self._there):
            self._session.execute(_BEGIN, {**self.address.key, "epoch": epoch, "digest": digest.EMPTY})
            return _mark(self._session, self.address)

    def _insert_from(self, source: sql.Composable) -> sql.Composed:
        shape, columns = self.shape, list_columns(self.shape.schema.names)
        insert = sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {}").format(
            sql.Identifier(*self.address.table), columns, columns, source
        )
        if not shape.key:
            return insert
        others = [sql.Identifier(name) for name in shape.schema.names if name not in shape.key]
        replaced = sql.SQL(", ").join(sql.SQL("{} = excluded.{}").format(name, name) for name in others)
        then = sql.SQL("UPDATE SET {}").format(replaced) if others else sql.SQL("NOTHING")
        return sql.SQL("{} ON CONFLICT ({}) DO {}").format(insert, list_columns(shape.key), then)

    def _stage(self, session: Session, rows: pa.Table) -> None:
        session.execute("TRUNCATE pg_temp.staged")
        with session.cursor() as cursor, cursor.copy("COPY pg_temp.staged FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(self.shape.copy_types)
            for row in _tuples(rows):
                copy.write_row(row)


def read_mark(address: TableAddress, patience_s: float = PATIENCE_S) -> Mark | None:
    """Read the last committed mark of a shard, None before its first epoch.

    Raises:
        SinkError: the shard has no row in the table of marks, or there is no such table.
        PipelineError: Settings, Access or Unreachable, as `connect` does.

    """
    with name_failures(address.database.url), connect(address.database, f"mark of {address}", patience_s) as session:
        return _mark(session, address)


def _tuples(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


def _mark(session: Session, address: TableAddress) -> Mark | None:
    found = session.execute(_READ, address.key).fetchone()
    if found is None:
        raise _without_mark(address)
    return Mark(*found) if found[0] >= 0 else None


def _without_mark(address: TableAddress) -> SinkError:
    return SinkError(
        "the shard has no progress mark",
        f"{address} in table {'.'.join(MARKS)}",
        "Run `effectively-once create`; if the sink had published before, restore its table and its marks together.",
    )


def _staging_table(address: TableAddress, shape: TableShape) -> sql.Composed:
    return sql.SQL("CREATE TEMPORARY TABLE staged AS SELECT {} FROM {} WITH NO DATA").format(
        list_columns(shape.schema.names), sql.Identifier(*address.table)
    )
