"""Lake tables: what they must look like, how they are made before a pipeline starts, and the mark that is in them.

A mark is the summary of a snapshot, and the tag `effectively_once` names the newest one: engines that compact a table
add snapshots, and those that expire snapshots leave one with a tag.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass

from psycopg import sql
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from effectively_once.errors import SinkError
from effectively_once.sinks.database import PATIENCE_S, connect, name_failures
from effectively_once.sinks.lake_catalog import (
    SCHEMA,
    LakeAddress,
    make_catalog,
    missing_error,
    name_catalog_failures,
)
from effectively_once.sinks.lake_files import LakeShape
from effectively_once.sinks.publish import Mark

TAG = "effectively_once"
PREFIX = "effectively-once."
"""Of what a snapshot's summary has beside Iceberg's own."""
KEEP, KEPT = "history.expire.min-snapshots-to-keep", "100"
"""The table's property that says how many epochs can be travelled back to."""
FORMAT = 2
"""Of the table's metadata: what every engine reads."""
PROPERTIES = {
    "format-version": str(FORMAT),
    # Every epoch is a snapshot: otherwise files of metadata and manifests would be as many as epochs.
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
    "commit.manifest-merge.enabled": "true",
    KEEP: KEPT,
}
LAKE_RESTORE = "Restore table and chain from one backup, or give the pipeline another name to publish everything anew."


@dataclass(frozen=True)
class AsRead:
    """What must still be so when a commit takes place: the table as it was read, with its rows and its mark.

    The catalog holds on to the table from here on. Iceberg's own conditions name a branch or a tag each; what expires
    with the commit was chosen by all of them.
    """

    metadata: TableMetadata

    def validate(self, found: TableMetadata | None) -> None:
        """Raise CommitFailedException where it is another one by now."""
        if found != self.metadata:
            raise CommitFailedException("the table is not as it was read")


def summary_of(mark: Mark, pipeline: str) -> dict[str, str]:
    """Return a mark as the summary of its snapshot has it."""
    return {f"{PREFIX}{name}": str(value) for name, value in {"pipeline": pipeline, **asdict(mark)}.items()}


def mark_of(metadata: TableMetadata, address: LakeAddress) -> Mark | None:
    """Return the mark of a table, None before its first epoch.

    Raises:
        SinkError: the table was set back, so that rows which the mark tells of are not in it; the mark is damaged, or
            of another pipeline.

    """
    if TAG not in metadata.refs:
        return None
    snapshots = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    newest = snapshots.get(metadata.refs[TAG].snapshot_id)
    mark = _read(newest, address)
    if newest is None or not _is_in(newest, metadata, snapshots):
        raise SinkError(
            f"the table was set back to before epoch {mark.epoch}, which it had shown", str(address), LAKE_RESTORE
        )
    return mark


def _read(snapshot: Snapshot | None, address: LakeAddress) -> Mark:
    told = {} if snapshot is None or snapshot.summary is None else snapshot.summary.additional_properties
    try:
        epoch, generation, count = (int(told[f"{PREFIX}{name}"]) for name in ("epoch", "generation", "rows"))
        mark, pipeline = Mark(epoch, generation, count, told[f"{PREFIX}digest"]), told[f"{PREFIX}pipeline"]
    except (KeyError, ValueError) as error:
        raise SinkError(f"the tag {TAG} names no snapshot of an epoch", str(address), LAKE_RESTORE) from error
    if pipeline != address.pipeline:
        raise SinkError(f"its rows are of pipeline {pipeline}", str(address), LAKE_RESTORE)
    return mark


def _is_in(ours: Snapshot, metadata: TableMetadata, snapshots: Mapping[int, Snapshot]) -> bool:
    """Whether readers of the table see a snapshot: it is the current one, or before it.

    Of others in between some may have expired, and engines write that in two ways: the parent of the next one is named
    still, or is none. Where the row of them breaks off later than ours in time, it is taken to stand on ours.
    """
    now = metadata.current_snapshot()
    while now is not None and now.snapshot_id != ours.snapshot_id:
        before = snapshots.get(now.parent_snapshot_id or 0)
        if before is None:
            return (now.sequence_number or 0) > (ours.sequence_number or 0)
        now = before
    return now is not None


def epoch_of(snapshot: Snapshot) -> int | None:
    """Return the epoch that a snapshot shows, None where it is somebody else's."""
    said = snapshot.summary.additional_properties.get(f"{PREFIX}epoch", "") if snapshot.summary else ""
    return int(said) if said.isdecimal() else None


def find_expired(metadata: TableMetadata) -> list[Snapshot]:
    """Return snapshots of epochs beyond the newest ones that the table keeps, but for those with a tag or a branch.

    They are in the table's metadata, which every commit and every reader reads as a whole.
    """
    named = {ref.snapshot_id for ref in metadata.refs.values()}
    ours = [one for one in metadata.snapshots if epoch_of(one) is not None]
    told = metadata.properties.get(KEEP, "")
    # One more comes with this commit.
    beyond = len(ours) + 1 - int(told if told.isdecimal() else KEPT)
    oldest = sorted(ours, key=lambda one: one.sequence_number or 0)[: max(0, beyond)]
    return [one for one in oldest if one.snapshot_id not in named]


def refuse_other_shape(shape: LakeShape, table: Table, address: LakeAddress) -> None:
    """Refuse a table that rows of this shape cannot go to. It may have more columns, which are null then.

    Raises:
        SinkError: naming what differs.

    """
    fields = {field.name: field for field in table.schema().fields}
    wanted = pyarrow_to_schema(shape.columns).fields
    missing = [f"{field.name} {field.field_type}" for field in wanted if field.name not in fields]
    if missing:
        raise SinkError(
            f"the table lacks {', '.join(missing)}",
            str(address),
            "Add them at its end, in this order, with any engine.",
        )
    other = []
    for field in wanted:
        found = fields[field.name]
        if found.field_type != field.field_type:
            other.append(f"{field.name} is {found.field_type} and must be {field.field_type}")
        elif found.field_id != field.field_id:
            other.append(
                f"{field.name} has field id {found.field_id} and must have {field.field_id}, its place in the job"
            )
    ours = {field.name for field in wanted}
    other += [f"{field.name} is required" for field in fields.values() if field.required and field.name in ours]
    other += [f"{name} is required and not given" for name, it in fields.items() if it.required and name not in ours]
    if not table.spec().is_unpartitioned():
        other.append(f"it is partitioned by {', '.join(field.name for field in table.spec().fields)}")
    if table.metadata.format_version != FORMAT:
        other.append(f"its format version is {table.metadata.format_version}")
    if table.location() != address.location:
        other.append(f"it lies in {table.location()} and must lie in {address.location}")
    if other:
        raise SinkError(f"the table is another one: {'; '.join(other)}", str(address), "Correct the table or the job.")


def load(catalog: Catalog, address: LakeAddress, shape: LakeShape) -> Table:
    """Return a table as it is now. Raises SinkError when it is missing, or rows of this shape cannot go to it."""
    with name_catalog_failures(str(address)):
        try:
            table = catalog.load_table(address.identifier)
        except NoSuchTableError as error:
            raise missing_error(str(address)) from error
    refuse_other_shape(shape, table, address)
    return table


def create(address: LakeAddress, shape: LakeShape, patience_s: float = PATIENCE_S) -> None:
    """Make a table and the catalog that it is in. Safe to run again, and with others at once.

    Raises:
        SinkError: the table is there and is another one.
        PipelineError: Settings, Access or Unreachable, as `connect` does.

    """
    where = f"create {address}"
    with name_failures(str(address)), connect(address.database, where, patience_s) as session:
        # Held until the session ends: of two that make a catalog at once one would fail.
        session.execute("SELECT pg_advisory_lock(hashtext('effectively_once'))")
        if session.execute("SELECT to_regnamespace(%s) IS NULL", [SCHEMA]).fetchone() == (True,):
            session.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(SCHEMA)))
        make(make_catalog(address, patience_s), address, shape)


def make(catalog: Catalog, address: LakeAddress, shape: LakeShape) -> None:
    """Make a table. Safe to run again, and with others at once; nothing that exists is changed.

    Raises:
        SinkError: it is there and is another one.

    """
    with name_catalog_failures(str(address)):
        with suppress(NamespaceAlreadyExistsError):
            catalog.create_namespace(address.pipeline)
        with suppress(TableAlreadyExistsError):
            catalog.create_table(
                address.identifier, pyarrow_to_schema(shape.columns), address.location, properties={**PROPERTIES}
            )
    load(catalog, address, shape)
