"""The catalog of lake tables: PyIceberg's SQL catalog in the result store, its files on the pipeline's object store.

Its sessions are those of the other tables: credentials from the environment, every wait ends, every failure has a name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import psycopg
from psycopg import sql
from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.catalog.sql import SqlCatalog, SqlCatalogBaseTable
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from sqlalchemy import Engine, MetaData, create_engine
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateTable

from effectively_once.errors import PipelineError, SinkError
from effectively_once.ledger.objects import ObjectStore
from effectively_once.sinks.database import PATIENCE_S, DatabaseAddress, Session, connect, name_error, name_failures
from effectively_once.sinks.store_io import ROOT, STORE, StoreIO
from effectively_once.sinks.tables import MARKS
from effectively_once.store.object_store import BucketAddress, shared_store

NAME = "effectively_once"
"""Of the catalog: other engines find its tables under it."""
SCHEMA = MARKS[0]
"""Of the database: where the catalog's own two tables are, beside the progress marks."""


@dataclass(frozen=True, slots=True)
class LakeAddress:
    """One lake table: `<pipeline>.<sink>` of the catalog, its files in the sink's folder of the bucket."""

    database: DatabaseAddress
    bucket: BucketAddress
    pipeline: str
    sink: str

    @property
    def identifier(self) -> tuple[str, str]:
        """Namespace and table."""
        return self.pipeline, self.sink

    @property
    def root(self) -> str:
        """What all locations begin with."""
        return f"s3://{self.bucket.bucket}/"

    @property
    def location(self) -> str:
        """The folder of the table; it is the sink's of the layout."""
        return f"{self.root}{self.pipeline}/{self.sink}"

    def __str__(self) -> str:
        """As messages name it."""
        return f"lake table {self.pipeline}.{self.sink}"


class LakeCatalog(SqlCatalog):
    """PyIceberg's catalog over sessions and a store that are handed to it.

    Args:
        engine: of the database.
        store: where the files are.
        root: what their locations begin with.
        made: whether its own tables are made where they are not there.

    """

    def __init__(self, engine: Engine, store: ObjectStore, root: str, *, made: bool = False) -> None:
        properties: dict[str, Any] = {
            "py-io-impl": f"{StoreIO.__module__}.{StoreIO.__qualname__}",
            STORE: store,
            ROOT: root,
            "init_catalog_tables": str(made).lower(),
        }
        # Not SqlCatalog's own, which makes an engine of an address with a password in it.
        MetastoreCatalog.__init__(self, NAME, **properties)
        self.engine = engine
        self._init_catalog()


Opened = Callable[[], Catalog]
"""Opens the catalog, or returns the one that is open."""


def open_catalog(address: LakeAddress, patience_s: float = PATIENCE_S) -> Catalog:
    """Return the catalog that a table is in; this process has one for each database and bucket.

    Raises:
        PipelineError: Settings, Access or Unreachable, as `connect` does.

    """
    return _catalog(address.database, address.bucket, patience_s)


def read_lake_table(database: str, bucket: BucketAddress, pipeline: str, sink: str) -> Table:
    """Return a lake table as it is now, a `pyiceberg.table.Table`; credentials come from the environment.

    Args:
        database: postgresql://host:port/database, as in the settings of its pipeline.
        bucket: where the pipeline keeps its chain.
        pipeline: its name.
        sink: one of it that is `ToIceberg`.

    Raises:
        SinkError: there is no such table.
        PipelineError: Settings, Access or Unreachable, as `connect` does.

    """
    address = LakeAddress(DatabaseAddress(database), bucket, pipeline, sink)
    with name_catalog_failures(str(address)):
        return open_catalog(address).load_table(address.identifier)


@lru_cache(maxsize=16)
def _catalog(database: DatabaseAddress, bucket: BucketAddress, patience_s: float) -> Catalog:
    with name_catalog_failures(f"catalog of lake tables at {database.url}"):
        root = LakeAddress(database, bucket, "", "").root
        return LakeCatalog(engine_of(database, patience_s), shared_store(bucket), root)


def make_catalog(address: LakeAddress, patience_s: float) -> Catalog:
    """Open the catalog, and make its own tables where they are not there. Raises as `open_catalog` does."""
    with name_catalog_failures(f"catalog of lake tables at {address.database.url}"):
        engine = engine_of(address.database, patience_s)
        return LakeCatalog(engine, shared_store(address.bucket), address.root, made=True)


def make_catalog_tables(session: Session) -> None:
    """Make the catalog's own tables as PyIceberg would, unless they are there. Raises psycopg.Error."""
    here, dialect = MetaData(schema=SCHEMA), postgresql.dialect()  # type: ignore[no-untyped-call]
    for table in SqlCatalogBaseTable.metadata.sorted_tables:
        statement = CreateTable(table.to_metadata(here), if_not_exists=True).compile(dialect=dialect)
        session.execute(str(statement).encode())


def engine_of(database: DatabaseAddress, patience_s: float) -> Engine:
    """Return SQLAlchemy's way to the database, by the sessions that all sinks have."""

    def prepare(session: Session) -> None:
        session.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(SCHEMA)))

    def open_session() -> Session:
        session = connect(database, "lake tables", patience_s, prepare)
        session.autocommit = False
        return session

    # A session that the server ended since the last epoch is opened anew before anything is asked of it.
    return create_engine(
        "postgresql+psycopg://", creator=open_session, pool_size=1, pool_pre_ping=True, use_native_hstore=False
    )


@contextmanager
def name_catalog_failures(where: str) -> Iterator[None]:
    """Give every failure of the block its name.

    Raises:
        SinkError: the table is not there.
        PipelineError: as `name_failures` does, of what the database says.

    """
    try:
        yield
    except NoSuchTableError as error:
        raise missing_error(where) from error
    except DBAPIError as error:
        if isinstance(error.orig, psycopg.errors.UndefinedTable):
            raise missing_error(where) from error
        if not isinstance(error.orig, psycopg.Error):
            raise
        with name_failures(where):
            raise error.orig from error


def refusal_of(error: DBAPIError, where: str) -> PipelineError | None:
    """Return the error that no repeat helps against; None where the outcome of a commit is unknown."""
    return name_error(error.orig, where) if isinstance(error.orig, psycopg.Error) else None


def missing_error(where: str) -> SinkError:
    """A table that is not there, or was dropped."""
    return SinkError("the lake table does not exist", where, "Run `effectively-once create` or restore the table.")
