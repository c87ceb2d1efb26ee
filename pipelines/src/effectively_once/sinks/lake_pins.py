"""Snapshots of a lake table that stay for as long as a backup may need them, each under a tag, and the way back to one.

An engine that expires snapshots leaves one with a tag, and so do epochs. The files of a snapshot stay with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import RemoveSnapshotRefUpdate, SetSnapshotRefUpdate

from effectively_once.errors import SinkError
from effectively_once.sinks.iceberg import IcebergSink
from effectively_once.sinks.lake_catalog import name_catalog_failures
from effectively_once.sinks.lake_tables import LAKE_RESTORE, TAG, AsRead, epoch_of
from effectively_once.sinks.publish import ATTEMPTS


def pin(sink: IcebergSink, epoch: int, tag: str) -> bool:
    """Give the snapshot of an epoch a tag; whether there is one. Drivers may publish meanwhile.

    Raises:
        SinkError: the table is missing or another one, or others commit to it without a pause.
        PipelineError: as `open_catalog` does.

    """

    def updates(metadata: TableMetadata) -> list[Any] | None:
        # After a table was set back, the newer one of two is what readers see.
        found = max(_of_epoch(metadata, epoch), key=lambda one: one.sequence_number or 0, default=None)
        return None if found is None else [_ref(tag, SnapshotRefType.TAG, found.snapshot_id)]

    return _change(sink, updates)


def unpin(sink: IcebergSink, tag: str) -> bool:
    """Take a tag away; whether it was there. Raises as `pin` does."""

    def updates(metadata: TableMetadata) -> list[Any] | None:
        return [RemoveSnapshotRefUpdate.model_validate({"ref-name": tag})] if tag in metadata.refs else None

    return _change(sink, updates)


def set_back(sink: IcebergSink, tag: str) -> bool:
    """Make the snapshot with a tag the one that readers see, and its mark the table's; whether that was another one.

    What was shown after it is seen no more. Nobody may publish meanwhile.

    Raises:
        SinkError: there is no such tag, or it names no snapshot of an epoch; else as `pin`.
        PipelineError: as `open_catalog` does.

    """

    def updates(metadata: TableMetadata) -> list[Any] | None:
        ref = metadata.refs.get(tag)
        snapshot = metadata.snapshot_by_id(ref.snapshot_id) if ref else None
        if snapshot is None or epoch_of(snapshot) is None:
            raise SinkError(f"no snapshot of an epoch has the tag {tag}", str(sink.address), LAKE_RESTORE)
        kinds = {MAIN_BRANCH: SnapshotRefType.BRANCH, TAG: SnapshotRefType.TAG}
        if all(name in metadata.refs and metadata.refs[name].snapshot_id == snapshot.snapshot_id for name in kinds):
            return None
        return [_ref(name, kind, snapshot.snapshot_id) for name, kind in kinds.items()]

    return _change(sink, updates)


def _change(sink: IcebergSink, updates: Any) -> bool:
    for _ in range(ATTEMPTS):
        table = sink.open_table()
        wanted = updates(table.metadata)
        if wanted is None:
            return False
        if _commit(table, wanted, str(sink.address)):
            return True
    raise SinkError(f"{ATTEMPTS} commits of a tag failed", str(sink.address), "Look who else commits to it.")


def _commit(table: Table, updates: list[Any], where: str) -> bool:
    as_read: Any = AsRead(table.metadata)
    with name_catalog_failures(where):
        try:
            table.catalog.commit_table(table, (as_read,), tuple(updates))
        except (CommitFailedException, CommitStateUnknownException):
            # To ask again does no harm.
            return False
    return True


def _of_epoch(metadata: TableMetadata, epoch: int) -> Iterator[Snapshot]:
    return (one for one in metadata.snapshots if epoch_of(one) == epoch)


def _ref(name: str, kind: SnapshotRefType, snapshot_id: int) -> SetSnapshotRefUpdate:
    return SetSnapshotRefUpdate.model_validate({"ref-name": name, "type": kind, "snapshot-id": snapshot_id})
