"""Data files of a lake table: shards write them, and nobody reads one before a snapshot names it (R8).

Executors need no catalog for it, and no Iceberg library: a column's field id is its place among the columns.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from effectively_once.errors import SinkError
from effectively_once.ledger import digest
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import ObjectStore, create_once, run
from effectively_once.sinks.manifest import PAGE_BYTES, PAGE_VALUES
from effectively_once.sinks.staged import StagedFile

_MAGIC = b"PAR1"
_LENGTH_BYTES = 4


@dataclass(frozen=True)
class LakeShape:
    """What a sink's rows are: columns of the Arrow tables that are published, of types that tables can have."""

    schema: pa.Schema

    @property
    def columns(self) -> pa.Schema:
        """The columns as a data file has them, each with its field id."""
        return pa.schema(
            [
                pa.field(column.name, column.type, metadata={"PARQUET:field_id": str(number)})
                for number, column in enumerate(self.schema, start=1)
            ]
        )


class LakeFiles:
    """Writes the data files of one sink. `unique` names what an attempt writes; no two calls may give the same name."""

    def __init__(
        self,
        store: ObjectStore,
        layout: Layout,
        sink: str,
        shape: LakeShape,
        unique: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        self._store, self._layout, self._sink, self._shape, self._unique = store, layout, sink, shape, unique

    def stage(self, epoch: int, table: pa.Table) -> StagedFile:
        """Write a file that nobody reads before a snapshot names it; of no rows there is none.

        Raises:
            SinkError: its columns are not those that were declared.

        """
        schema = self._shape.schema
        if table.schema.names != schema.names or table.schema.types != schema.types:
            raise SinkError(
                f"the job gives columns {table.schema.names}, the sink was declared with {schema.names}",
                f"sink {self._sink}",
                "Give the declared columns, of the declared types.",
            )
        rows, table_digest = table.num_rows, digest.of_rows_in(table)
        if not rows:
            return StagedFile(name=None)
        name = self._layout.staged_file(self._sink, epoch, self._unique())
        buffer = pa.BufferOutputStream()
        pq.write_table(
            table.cast(self._shape.columns),
            buffer,
            write_batch_size=min(PAGE_VALUES, max(1, PAGE_BYTES * rows // max(1, table.nbytes))),
            write_page_checksum=True,
            # As Iceberg's specification has decimals of up to 18 digits.
            store_decimal_as_integer=True,
        )
        body = buffer.getvalue().to_pybytes()
        run(create_once(name, body), self._store)
        footer = base64.b64encode(_footer(body)).decode()
        return StagedFile(name=name, rows=rows, digest=table_digest, bytes=len(body), footer=footer)


def read_footer(staged: StagedFile) -> pq.FileMetaData:
    """Return what a staged file says of its columns, without reading it again."""
    return pq.read_metadata(pa.BufferReader(_MAGIC + base64.b64decode(staged.footer or "")))


def _footer(body: bytes) -> bytes:
    """The end of a Parquet file: its metadata, their length and the magic word."""
    end = _LENGTH_BYTES + len(_MAGIC)
    return body[-end - int.from_bytes(body[-end : -len(_MAGIC)], "little") :]
