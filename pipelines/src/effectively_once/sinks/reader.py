"""What a pipeline published to an object-store sink, read back as it was published (R8).

    bucket = BucketAddress("http://localhost:9000", "data")
    rows = published(bucket, "user_counts", "global_counts")
    rows.arrow(), rows.pandas(), rows.spark(session)     # or: for epoch, table in rows
    newer = published(bucket, "user_counts", "global_counts", since=rows.last + 1)

Manifests alone say what is published. No folder is listed, so a file that an attempt staged and no manifest names is
not seen. Credentials come from the environment.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from effectively_once.errors import SinkError
from effectively_once.ledger import chain, digest
from effectively_once.ledger.head import Head
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import ObjectStore, body_of, run
from effectively_once.sinks.manifest import ManifestSink, Shown
from effectively_once.sinks.manifest_span import Manifest
from effectively_once.state.deltas import DAMAGE
from effectively_once.store.object_store import BucketAddress, shared_store

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

RESTORE = "Restore it from the bucket's versions or a backup."


def published(
    bucket: BucketAddress, pipeline: str, sink: str, *, since: int | None = None, verify: bool = True
) -> PublishedRows:
    """Pin what a sink shows now; its rows are read when they are asked for.

    Args:
        bucket: where the pipeline keeps its chain.
        pipeline: its name.
        sink: an object-store sink of it.
        since: the first epoch wanted; None for all that is kept.
        verify: compare the digest of every epoch's rows with its manifest (some 5 s a million rows).

    Raises:
        ChainError: there is no head, or it is damaged.
        SinkError: a manifest is missing or damaged, or epochs from `since` on are no longer kept.

    """
    opened, layout = partial(shared_store, bucket), Layout(pipeline)
    return PublishedRows(opened, layout, sink, run(chain.read(layout), opened()), since=since, verify=verify)


class PublishedRows:
    """The rows of epochs `first` to `last`, as one head and the manifests tell; `last` is -1 before the first epoch.

    The declared epoch counts as soon as its manifest is there: nobody publishes it otherwise any more. Below the floor
    manifests may have been purged (R9); what is kept is a row of epochs without a gap that ends with `last`.
    """

    def __init__(
        self,
        opened: Callable[[], ObjectStore],
        layout: Layout,
        sink: str,
        head: Head,
        *,
        since: int | None = None,
        verify: bool = True,
    ) -> None:
        self._opened, self._layout, self._name, self._verify = opened, layout, sink, verify
        self._store = opened()
        self._kept = read_kept(self._store, layout, sink, head, since or 0)
        self.manifests = self._kept.manifests
        # Who asks for what follows an epoch has read it, though it may be declared still: it is not to be read again.
        self.last = max(self.manifests, default=max(head.last_recorded, (since or 0) - 1))
        self.first = min(self.manifests, default=self.last + 1)
        if since is not None and since < self.first:
            raise SinkError(
                f"epochs {since} to {self.first - 1} of sink {sink} are no longer kept",
                layout.manifest(sink, self.first - 1),
                "Read from a backup, or without `since` what is left.",
            )

    def __iter__(self) -> Iterator[tuple[int, pa.Table]]:
        """Yield (epoch, table), oldest first, of the epochs that have rows.

        Raises:
            SinkError: a file is missing, is damaged, or does not hold the rows of its manifest.

        """
        for epoch, manifest in self.manifests.items():
            if manifest["rows"]:
                yield epoch, _table(self._store, manifest, self._kept.keys[epoch], self._verify)

    def arrow(self) -> pa.Table:
        """Return all rows as one table; a column that came later is null before. Without rows it has no columns.

        Raises:
            SinkError: as iterating does, or a column changed its type.

        """
        tables = [table for _, table in self]
        try:
            return pa.concat_tables(tables, promote_options="default") if tables else pa.table({})
        except pa.ArrowException as error:
            raise _columns_differ(str(error), self._name) from error

    def pandas(self) -> pd.DataFrame:
        """Return all rows as a data frame of pandas. Raises what `arrow` raises."""
        return self.arrow().to_pandas()

    def spark(self, session: SparkSession) -> DataFrame:
        """Return a data frame whose tasks read the files, each epoch in one of them.

        Its columns are those of the newest epoch that has rows. Executors need the library and the credentials.

        Raises:
            SinkError: as iterating does; of what tasks read, when the data frame is used.

        """
        from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - readers without Spark do not need it
        from pyspark.sql.types import StructType  # noqa: PLC0415

        named = [
            (self._kept.keys[epoch], json.dumps(manifest))
            for epoch, manifest in self.manifests.items()
            if manifest["rows"]
        ]
        if not named:
            return session.createDataFrame([], StructType([]))
        key, newest = named[-1]
        schema = _table(self._store, json.loads(newest), key, self._verify).schema
        frame = session.createDataFrame(named, "key string, manifest string")
        # Not a method: it would drag this object, and the store in it, to the executors.
        task = partial(_batches, self._opened, self._verify, schema)
        return frame.mapInArrow(task, from_arrow_schema(schema))


@dataclass(frozen=True, slots=True)
class Kept:
    """Manifests of a sink by epoch, ascending, and the object that each is read from: its own, or a span."""

    manifests: dict[int, Manifest]
    keys: dict[int, str]


def read_kept(store: ObjectStore, layout: Layout, sink: str, head: Head, since: int) -> Kept:
    """Return the manifests of a sink from `since` on that are kept.

    Raises:
        SinkError: one is damaged, or is missing and not below the floor.

    """
    found = sorted(_newest_first(store, layout, sink, head, since), key=lambda shown: shown.epoch)
    manifests = {shown.epoch: shown.manifest for shown in found if shown.manifest is not None}
    return Kept(manifests, {shown.epoch: shown.key for shown in found})


def _newest_first(store: ObjectStore, layout: Layout, sink: str, head: Head, since: int) -> Iterator[Shown]:
    manifests = ManifestSink(store, layout, sink)
    declared = head.declared
    if declared is not None and declared.epoch >= since:
        yield from (shown for shown in manifests.newest_first(declared.epoch, declared.epoch) if shown.manifest)
    for shown in manifests.newest_first(head.last_recorded, since):
        if shown.manifest is None:
            # The floor may have risen since head was read, and what is below it may have gone.
            if shown.epoch >= max(head.floor, run(chain.read(layout), store).floor):
                raise SinkError(
                    "a manifest is missing",
                    shown.key,
                    f"{RESTORE} A sink that is no object-store sink has none: read its topic or table.",
                )
            return
        yield shown


def files_of(manifest: Manifest, key: str) -> dict[str, int]:
    """Rows of the files that a manifest names, by object name. Raises SinkError when it is damaged."""
    try:
        return {file["name"]: file["rows"] for file in manifest["files"]}
    except (KeyError, TypeError) as error:
        raise SinkError("a manifest is damaged", key, RESTORE) from error


def of_file(body: bytes, name: str, rows: int) -> pa.Table:
    """Return the table of a file that has so many rows. Raises SinkError when it is damaged."""
    try:
        table = pq.read_table(pa.BufferReader(body), page_checksum_verification=True)
    except DAMAGE as error:
        raise SinkError(f"a file of a sink is damaged: {str(error)[:200]}", name, RESTORE) from error
    if table.num_rows != rows:
        raise SinkError(f"a file of a sink has {table.num_rows} rows, its manifest says {rows}", name, RESTORE)
    return table


def _table(store: ObjectStore, manifest: Manifest, key: str, verify: bool) -> pa.Table:
    """Rows of one epoch."""
    tables = []
    for name, rows in files_of(manifest, key).items():
        body = run(body_of(name), store)
        if body is None:
            raise SinkError("a file that a manifest names is missing", name, RESTORE)
        tables.append(of_file(body, name, rows))
    named = manifest["digest"]
    if verify and digest.add(digest.of_rows_in(table, named) for table in tables) != named:
        raise SinkError("the files of an epoch do not hold the rows that its manifest was written for", key, RESTORE)
    return pa.concat_tables(tables)


def _batches(
    opened: Callable[[], ObjectStore], verify: bool, schema: pa.Schema, named: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Read the manifests that a task of Spark is given."""
    store = opened()
    for batch in named:
        for row in batch.to_pylist():
            table = _table(store, json.loads(row["manifest"]), row["key"], verify)
            yield from _as(table, schema, row["key"]).to_batches()


def _as(table: pa.Table, schema: pa.Schema, key: str) -> pa.Table:
    """Return the table with the columns of `schema`: what it lacks is null, anything else is refused."""
    try:
        whole = pa.concat_tables([schema.empty_table(), table], promote_options="default")
    except pa.ArrowException as error:
        raise _columns_differ(str(error), key) from error
    if whole.schema.names != schema.names:
        raise _columns_differ(f"{whole.schema.names[len(schema.names) :]} are not in the newest", key)
    return whole


def _columns_differ(how: str, where: str) -> SinkError:
    return SinkError(f"columns of epochs differ: {how[:200]}", where, "Read them apart, with `since`.")
