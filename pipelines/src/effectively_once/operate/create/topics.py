"""The topics of a pipeline as they have to be, and what is refused of those that exist."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from effectively_once.driver import transaction_probe
from effectively_once.driver.sink_topics import needed_bytes, refuse_expiring, refuse_small
from effectively_once.errors import SinkError, SourceError
from effectively_once.pipeline.columns import DEAD_LETTER
from effectively_once.pipeline.job import Job
from effectively_once.pipeline.settings import PipelineSettings
from effectively_once.pipeline.sinks import GROWTH, RECORD_BYTES
from effectively_once.sinks.kafka_shard import ShardAddress
from effectively_once.sources.statement import topic_of


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it has to be; `takes` is what its `max.message.bytes` is at least, where that matters.

    One that `grows` has a partition for each shard: it gets those that it lacks, and may have more of former shards.
    """

    name: str
    partitions: int
    compacted: bool = False
    source: bool = False
    config: tuple[tuple[str, str], ...] = ()
    takes: int = 0
    grows: bool = False

    def lacks_partitions(self, found: Found) -> bool:
        """Whether it is there, and is to get partitions."""
        return self.grows and found.partitions < self.partitions


@dataclass(frozen=True, slots=True)
class Found:
    """A topic as the broker describes it; `led` are the partitions that have a leader."""

    partitions: int
    led: frozenset[int]
    cleanup_policy: str = "delete"
    record_bytes: int = RECORD_BYTES


def source_topics(settings: PipelineSettings, partitions: int | None) -> list[Topic]:
    """Return the topics that a pipeline reads, where they are asked for."""
    return [Topic(name, partitions, source=True) for name in settings.topics] if partitions else []


def topics_of(job: Job, source_partitions: int | None) -> list[Topic]:
    """Return the topics of a pipeline: rows and marks of every sink, a start's own, the source when it is asked for."""
    settings = job.settings
    found = source_topics(settings, source_partitions)
    if settings.sources:
        found += [Topic(topic_of(settings.topic), 1, compacted=True, source=True)]
    for sink in job.pipeline.kafka_sinks:
        shard = ShardAddress(settings.kafka_bootstrap, settings.pipeline, sink, 0)
        found += [Topic(shard.topic, settings.shards, takes=needed_bytes(job.pipeline, sink), grows=True)]
        found += [Topic(shard.progress, settings.shards, compacted=True, grows=True)]
    return [*found, Topic(transaction_probe.name_topic(settings.pipeline), 1, config=transaction_probe.CONFIG)]


def too_small(job: Job, record_bytes: int) -> Iterator[str]:
    """Say which sinks may not take what a record of so many bytes becomes, and what happens to such a record."""
    what = f"a record of topic {job.settings.topic} may have {record_bytes:,} bytes"
    for sink in job.pipeline.kafka_sinks:
        takes = needed_bytes(job.pipeline, sink)
        if sink == DEAD_LETTER:
            if record_bytes * 4 // 3 > takes:
                yield f"{what}: of one that is refused and larger than {takes * 3 // 4:,} the dead letter has a digest"
        elif record_bytes * GROWTH > takes:
            yield f"{what}: one whose message in {sink} is larger than {takes:,}, its message_bytes_max, is refused"


def refuse_other_shape(topic: Topic, found: Found) -> None:
    """Refuse a topic that exists with another number of partitions, whose marks would expire, or that takes too little.

    Raises:
        SourceError: it is the source.
        SinkError: it belongs to a sink.

    """
    error = SourceError if topic.source else SinkError
    if found.partitions != topic.partitions and not (topic.grows and found.partitions > topic.partitions):
        raise error(
            f"the topic exists with {found.partitions} partitions, asked for are {topic.partitions}",
            f"topic {topic.name}",
            "Ask for as many as it has, or give the pipeline another name."
            if not topic.source
            else "Ask for as many as it has, or read another topic.",
        )
    if topic.compacted:
        refuse_expiring(topic.name, found.cleanup_policy)
    if not topic.source:
        refuse_small(topic.name, found.record_bytes, topic.takes)
