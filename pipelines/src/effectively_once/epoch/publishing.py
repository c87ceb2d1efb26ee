"""The sinks of a shard, opened by what the declaration says of them, and kept open between epochs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from effectively_once.errors import SettingsError
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import ObjectStore
from effectively_once.pipeline.columns import DEAD_LETTER
from effectively_once.pipeline.job import Job
from effectively_once.pipeline.pipeline import Pipeline
from effectively_once.pipeline.settings import PipelineSettings
from effectively_once.pipeline.sinks import ToTable
from effectively_once.sinks.database import DatabaseAddress
from effectively_once.sinks.kafka import ShardSink
from effectively_once.sinks.kafka_shard import ShardAddress
from effectively_once.sinks.lake_files import LakeFiles
from effectively_once.sinks.manifest import ManifestSink
from effectively_once.sinks.plain import PlainSink
from effectively_once.sinks.postgres import TableAddress, TableSink
from effectively_once.sinks.publish import Sink
from effectively_once.sinks.staged import StagedSink, Stager
from effectively_once.sinks.tables import TableShape

if TYPE_CHECKING:
    from effectively_once.sinks.iceberg import IcebergSink


def open_sink(
    pipeline: Pipeline, settings: PipelineSettings, name: str, shard: int, announce: Callable[[str], None]
) -> Sink[Any]:
    """Return a shard of a sink: the one that this process has open, or a new one."""
    to = None if name == DEAD_LETTER else pipeline.sinks[name][0]
    sink: ShardSink | TableSink
    if isinstance(to, ToTable):
        sink = _table(TableAddress(database_of(settings), settings.pipeline, name, shard), pipeline.tables[name])
    else:
        address = ShardAddress(settings.kafka_bootstrap, settings.pipeline, name, shard, settings.transaction_timeout_s)
        if settings.semantics == "at_least_once":
            return _plain(address)
        sink = _kafka(address)
    sink.announce = announce
    return sink


def database_of(settings: PipelineSettings) -> DatabaseAddress:
    """Address of the database. Raises SettingsError when none is set."""
    return DatabaseAddress(settings.database or "")


def open_stager(pipeline: Pipeline, store: ObjectStore, layout: Layout, name: str) -> Stager:
    """Return what writes the files of a staged sink; who shows them is asked nothing."""
    if name in pipeline.lake_tables:
        return LakeFiles(store, layout, name, pipeline.lake_tables[name])
    return ManifestSink(store, layout, name)


def open_staged(job: Job, store: ObjectStore, name: str) -> StagedSink:
    """Return a staged sink. Raises SettingsError as `open_lake_table` does."""
    if name in job.pipeline.lake_tables:
        return open_lake_table(job, store, name)
    return ManifestSink(store, Layout(job.settings.pipeline), name)


def open_lake_table(job: Job, store: ObjectStore, name: str) -> IcebergSink:
    """Return the sink of a lake table; its catalog is asked when the sink is.

    Raises:
        SettingsError: what it needs is not installed.

    """
    try:
        # Nobody else needs the library: it is an extra of the wheel.
        from effectively_once.sinks.iceberg import IcebergSink  # noqa: PLC0415
        from effectively_once.sinks.lake_catalog import LakeAddress  # noqa: PLC0415
    except ImportError as error:
        raise SettingsError(
            f"the pipeline has a lake table, and {(error.name or '').partition('.')[0]} is not installed",
            f"sink {name}",
            "Install the library with its extra: effectively-once[iceberg].",
        ) from error
    settings = job.settings
    address = LakeAddress(database_of(settings), settings.bucket, settings.pipeline, name)
    return IcebergSink(store, address, job.pipeline.lake_tables[name], patience_s=settings.start_patience_s)


def table_addresses(job: Job) -> Iterator[TableAddress]:
    """Every shard of every table of a pipeline."""
    for sink in job.pipeline.tables:
        for shard in range(job.settings.shards):
            yield TableAddress(database_of(job.settings), job.settings.pipeline, sink, shard)


def open_shards(job: Job, numbers: Iterable[int]) -> Iterator[ShardSink | TableSink]:
    """Open some shards of every sink with marks, in the order in which sinks publish; this process keeps none of them.

    A Kafka sink that publishes at least once has none.
    """
    settings, tables = job.settings, job.pipeline.tables
    numbers = [*numbers]
    for sink in job.pipeline.kafka_sinks if settings.semantics == "exactly_once" else ():
        for shard in numbers:
            wait_s = settings.transaction_timeout_s
            yield ShardSink(ShardAddress(settings.kafka_bootstrap, settings.pipeline, sink, shard, wait_s))
    for sink, shape in tables.items():
        for shard in numbers:
            address = TableAddress(database_of(settings), settings.pipeline, sink, shard)
            with closing(TableSink(address, shape)) as table:
                yield table


@lru_cache(maxsize=256)
def _plain(address: ShardAddress) -> PlainSink:
    return PlainSink(address)


@lru_cache(maxsize=256)
def _kafka(address: ShardAddress) -> ShardSink:
    return ShardSink(address)


@lru_cache(maxsize=256)
def _table(address: TableAddress, shape: TableShape) -> TableSink:
    return TableSink(address, shape)
