"""The sinks of a shard, opened by what the declaration says of them, and kept open between epochs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from effectively_once.pipeline.columns import DEAD_LETTER
from effectively_once.pipeline.job import Job
from effectively_once.pipeline.pipeline import Pipeline
from effectively_once.pipeline.settings import PipelineSettings
from effectively_once.pipeline.sinks import ToTable
from effectively_once.sinks.database import DatabaseAddress
from effectively_once.sinks.kafka import ShardSink
from effectively_once.sinks.kafka_shard import ShardAddress
from effectively_once.sinks.plain import PlainSink
from effectively_once.sinks.postgres import TableAddress, TableSink
from effectively_once.sinks.publish import Sink
from effectively_once.sinks.tables import TableShape


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


def table_addresses(job: Job) -> Iterator[TableAddress]:
    """Every shard of every table of a pipeline."""
    for sink in job.pipeline.tables:
        for shard in range(job.settings.shards):
            yield TableAddress(database_of(job.settings), job.settings.pipeline, sink, shard)


@lru_cache(maxsize=256)
def _plain(address: ShardAddress) -> PlainSink:
    return PlainSink(address)


@lru_cache(maxsize=256)
def _kafka(address: ShardAddress) -> ShardSink:
    return ShardSink(address)


@lru_cache(maxsize=256)
def _table(address: TableAddress, shape: TableShape) -> TableSink:
    return TableSink(address, shape)
