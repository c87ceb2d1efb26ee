"""Makes what a pipeline needs before it starts, by its declaration of sinks and what its job needs beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from effectively_once.driver.sink_topics import SIZE
from effectively_once.epoch.publishing import database_of, open_lake_table
from effectively_once.operate.abandon import added
from effectively_once.operate.create.broker import Broker, KafkaCluster, step
from effectively_once.operate.create.bucket import EVENT_LOG, make_bucket, store
from effectively_once.operate.create.needs import NOTHING, Needs, make_schema
from effectively_once.operate.create.topics import Topic, too_small, topics_of
from effectively_once.operate.create.wait import NotYetError, until
from effectively_once.pipeline.job import Job
from effectively_once.pipeline.settings import PipelineSettings
from effectively_once.pipeline.sinks import RECORD_BYTES
from effectively_once.sinks import tables
from effectively_once.sources.times import BOUNDS
from effectively_once.store.object_store import S3ObjectStore


def create(
    job: Job,
    *,
    replication: int,
    deadline_s: float,
    source_partitions: int | None = None,
    event_log_bucket: str | None = None,
    event_log_folder: str = EVENT_LOG,
    needs: Needs = NOTHING,
    say: Callable[[str], object] = lambda _: None,
) -> None:
    """Make bucket, topics and tables, and return when every partition has a leader; sinks that are new get their marks.

    Raises:
        PipelineError: Settings, Access, Source, Sink, or Unreachable with the evidence of what was waited for.

    """
    settings = job.settings

    def topics(record_bytes: int) -> list[Topic]:
        for line in too_small(job, record_bytes):
            say(line)
        return topics_of(job, source_partitions)

    create_needed(
        settings,
        needs,
        topics,
        replication=replication,
        deadline_s=deadline_s,
        source_partitions=source_partitions,
        event_log_bucket=event_log_bucket,
        event_log_folder=event_log_folder,
        say=say,
    )
    for name, shape in job.pipeline.tables.items():
        tables.make(
            database_of(settings), settings.pipeline, name, shape, settings.shards, patience_s=deadline_s, say=say
        )
    store_ = S3ObjectStore(settings.bucket)
    for name in job.pipeline.lake_tables:
        open_lake_table(job, store_, name).make(patience_s=deadline_s, say=say)
    added.begin(job, store_, say)


def create_needed(
    settings: PipelineSettings,
    needs: Needs,
    topics: Callable[[int], Sequence[Topic]],
    *,
    replication: int,
    deadline_s: float,
    source_partitions: int | None = None,
    event_log_bucket: str | None = None,
    event_log_folder: str = EVENT_LOG,
    say: Callable[[str], object] = lambda _: None,
) -> None:
    """Make buckets, topics and what a job needs beside its sinks.

    Args:
        settings: of the pipeline.
        needs: of the job.
        topics: those of sinks, and the source where it is to be made, by how large a record of the source may be.
        replication: copies of every topic.
        deadline_s: seconds for buckets, for topics and for tables.
        source_partitions: None: the source is there, and its partitions are those of the topics that are needed.
        event_log_bucket: gets a folder for Spark's event logs.
        event_log_folder: its name, with a slash at the end.
        say: told what is there.

    Raises:
        PipelineError: as `create` does.

    """
    client = store(settings)
    for bucket in dict.fromkeys([settings.s3_bucket, *([event_log_bucket] if event_log_bucket else [])]):
        folder = event_log_folder if bucket == event_log_bucket else None
        made = partial(make_bucket, client, bucket, folder)
        until(f"bucket {bucket}", settings.s3_endpoint, deadline_s, made)
        say(f"bucket {bucket} is there")
    broker = KafkaCluster(settings.kafka_bootstrap)
    of_source = tuple({**BOUNDS, **needs.config}.items())
    wanted = [
        replace(topic, config=of_source) if topic.name in settings.topics else topic
        for topic in topics(_record_bytes(settings, needs, deadline_s))
    ]
    wanted += _list_needed(broker, settings.topics, needs, source_partitions, deadline_s)
    until("topics", settings.kafka_bootstrap, deadline_s, lambda: step(broker, wanted, replication))
    say("every partition has a leader: " + ", ".join(f"{topic.name} ({topic.partitions})" for topic in wanted))
    make_schema(settings.database, needs, patience_s=deadline_s, say=say)


def _record_bytes(settings: PipelineSettings, needs: Needs, deadline_s: float) -> int:
    """How large a record of the source may be: of those that are there, else as its job needs it."""
    broker, found = KafkaCluster(settings.kafka_bootstrap), int(needs.config.get(SIZE, RECORD_BYTES))

    def look() -> None:
        nonlocal found
        there = broker.topics([*settings.topics])
        found = max((one.record_bytes for one in there.values()), default=found)

    until("topics", settings.kafka_bootstrap, deadline_s, look)
    return found


def _list_needed(
    broker: Broker, source: Sequence[str], needs: Needs, source_partitions: int | None, deadline_s: float
) -> Iterator[Topic]:
    """Topics that a job needs, as wide as its source, which is waited for where somebody else makes it."""
    found = source_partitions or 0

    def look() -> None:
        nonlocal found
        there = broker.topics([*source])
        for name in source:
            if name not in there:
                raise NotYetError(f"topic {name} is not there")
        found = max(there[name].partitions for name in source)

    if needs.topics and not found:
        until(f"topic {', '.join(source)}", "the job's further topics are to be as wide", deadline_s, look)
    for name in needs.topics:
        yield Topic(name, found, config=tuple(needs.config.items()))
