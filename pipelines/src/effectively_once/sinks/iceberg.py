"""The Iceberg sink: shards write data files that nobody reads, the driver shows an epoch's by one snapshot (R8).

The snapshot's summary is the sink's progress mark. It is committed against the table as it was read: a commit of
anybody else in between makes ours fail, and the mark that is there then tells which way. So any number of drivers show
an epoch once. PyIceberg's own repeats of a commit would put it on top of whatever came in between; none is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import structlog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table, Transaction
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import RemoveSnapshotsUpdate, SetSnapshotRefUpdate
from sqlalchemy.exc import DBAPIError

from effectively_once.errors import PipelineError, SinkError
from effectively_once.ledger import digest
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import ObjectStore
from effectively_once.ledger.rows import Rows
from effectively_once.side_by_side import AT_ONCE, Turn
from effectively_once.sinks import lake_tables
from effectively_once.sinks.database import PATIENCE_S
from effectively_once.sinks.lake_catalog import LakeAddress, Opened, open_catalog, refusal_of
from effectively_once.sinks.lake_files import LakeFiles, LakeShape, read_footer
from effectively_once.sinks.lake_tables import TAG, AsRead, find_expired, mark_of, summary_of
from effectively_once.sinks.publish import ATTEMPTS, Committed, Mark, Published
from effectively_once.sinks.staged import StagedFile
from effectively_once.sinks.transaction import TransactionalSink

log = structlog.get_logger()


class IcebergSink(TransactionalSink[Sequence[StagedFile]]):
    """Publishes the epochs of one lake table, staged files of all shards at once.

    Args:
        store: where the files are.
        address: the table.
        shape: its columns.
        announce: as of `TransactionalSink`.
        opened: opens the catalog, which nobody asks who only stages files.
        patience_s: how long the database may stay silent.

    """

    def __init__(
        self,
        store: ObjectStore,
        address: LakeAddress,
        shape: LakeShape,
        announce: Callable[[str], None] = lambda _: None,
        *,
        opened: Opened | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        super().__init__(str(address), announce)
        self.address, self.shape = address, shape
        self._files = LakeFiles(store, Layout(address.pipeline), address.sink, shape)
        self._opened = opened or partial(open_catalog, address, patience_s)
        self._table: Table | None = None
        self._turn = AT_ONCE

    def stage(self, epoch: int, table: object) -> StagedFile:
        """See LakeFiles."""
        return self._files.stage(epoch, table)

    def publish_staged(
        self,
        epoch: int,
        generation: int,
        staged: Sequence[StagedFile],
        *,
        begins: bool = False,
        turn: Turn = AT_ONCE,
    ) -> tuple[Rows, Published]:
        """Make an epoch's staged files visible, all of them at once. Raises what `publish` raises.

        `begins` is for a sink that is new to its chain: it gets the mark of an epoch over nothing, whatever it had.
        `turn` is called right before the snapshot is committed.
        """
        self._turn = turn
        return self._begin(epoch, generation) if begins else self.publish(epoch, generation, staged)

    def publish_table(
        self, epoch: int, generation: int, table: object, *, turn: Turn = AT_ONCE
    ) -> tuple[Rows, Published]:
        """See StagedSink."""
        return self.publish_staged(epoch, generation, [self.stage(epoch, table)], turn=turn)

    def make(self, *, patience_s: float = PATIENCE_S, say: Callable[[str], object] = lambda _: None) -> None:
        """Make the table, and the catalog before it. Raises as `lake_tables.create` does."""
        lake_tables.create(self.address, self.shape, patience_s)
        say(f"{self.address} is there")

    def identity(self) -> str:
        """Look at the table, and return what one has not that was made anew. Raises as `read_mark` does."""
        return str(self.open_table().metadata.table_uuid)

    def open_table(self) -> Table:
        """Return the table as it is now. Raises as `lake_tables.load` does."""
        return lake_tables.load(self._opened(), self.address, self.shape)

    def read_mark(self) -> Mark | None:
        """Read the table's mark, and disturb nobody. Raises SinkError, and what the catalog raises."""
        return self._open_at_mark(0)

    def mark_at(self, epoch: int) -> Mark | None:
        """Return the mark of an epoch that is the newest one; None of every other."""
        mark = self.read_mark()
        return mark if mark is not None and mark.epoch == epoch else None

    def _begin(self, epoch: int, generation: int) -> tuple[Rows, Published]:
        for _ in range(ATTEMPTS):
            mark = self._open_at_mark(generation)
            if mark is not None and mark.epoch >= epoch:
                return Rows(), Published.BEFORE
            if self._commit(Mark(epoch, generation, 0, digest.EMPTY), ()) is Committed.YES:
                return Rows(), Published.NOW
        raise SinkError(
            f"{ATTEMPTS} commits that begin with epoch {epoch} failed", self._where, "Look who else commits to it."
        )

    def _describe(self, rows: Sequence[StagedFile], like: str = digest.EMPTY) -> Rows:  # noqa: ARG002 - none is former
        return Rows(
            rows=sum(file.rows for file in rows),
            digest=digest.add(file.digest for file in rows),
            bytes=sum(file.bytes for file in rows),
        )

    def _open(self, generation: int) -> None:  # noqa: ARG002 - the chain fences, and the table as it was read
        self._table = self.open_table()

    def _read_mark(self) -> Mark | None:
        assert self._table is not None  # noqa: S101 - publish() opens before it reads
        return mark_of(self._table.metadata, self.address)

    def _commit(self, mark: Mark, rows: Sequence[StagedFile]) -> Committed:
        table = self._table
        assert table is not None  # noqa: S101 - publish() opens before it commits
        self._table = None
        transaction = Transaction(table)
        update = transaction.update_snapshot(snapshot_properties=summary_of(mark, self.address.pipeline))
        with update.merge_append() as snapshot:
            for file in rows:
                if file.name is not None:
                    snapshot.append_data_file(_data_file(table, self.address.root + file.name, file))
        tag = SetSnapshotRefUpdate.model_validate(
            {"ref-name": TAG, "type": SnapshotRefType.TAG, "snapshot-id": snapshot.snapshot_id}
        )
        expired = find_expired(table.metadata)
        updates = (*transaction._updates, tag, *_removals(expired))
        self.announce("transaction_open")
        self._turn()
        try:
            # By the catalog: a transaction of PyIceberg's would be repeated on top of other commits.
            as_read: Any = AsRead(table.metadata)
            done = self._opened().commit_table(table, (as_read,), updates)
        except (CommitFailedException, CommitStateUnknownException):
            # Refused, or nobody knows: the table that is there now tells.
            return Committed.UNKNOWN
        except DBAPIError as error:
            if (refused := refusal_of(error, self._where)) is not None:
                raise refused from error
            return Committed.UNKNOWN
        self.announce("committed")
        self._table = Table(table.name(), done.metadata, done.metadata_location, table.io, table.catalog)
        logged = ({one.metadata_file for one in it.metadata_log} for it in (table.metadata, done.metadata))
        self._delete([*next(logged) - next(logged), *(one.manifest_list for one in expired)])
        return Committed.YES

    def _delete(self, names: Sequence[str]) -> None:
        """Delete metadata that this commit left to nobody. What fails stays for `retention`."""
        assert self._table is not None  # noqa: S101 - it was just committed to
        try:
            for name in names:
                self._table.io.delete(name)
        except PipelineError as error:
            log.warning("old metadata of a lake table is not deleted", table=self._where, error=str(error))


def _removals(expired: Sequence[Snapshot]) -> tuple[RemoveSnapshotsUpdate, ...]:
    numbers = [snapshot.snapshot_id for snapshot in expired]
    return (RemoveSnapshotsUpdate.model_validate({"snapshot-ids": numbers}),) if numbers else ()


def _data_file(table: Table, path: str, file: StagedFile) -> DataFile:
    schema, properties = table.schema(), table.metadata.properties
    statistics = data_file_statistics_from_parquet_metadata(
        parquet_metadata=read_footer(file),
        stats_columns=compute_statistics_plan(schema, properties),
        parquet_column_mapping=parquet_path_to_id_mapping(schema),
    )
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=statistics.partition(table.spec(), schema),
        file_size_in_bytes=file.bytes,
        sort_order_id=None,
        spec_id=table.metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )
