"""Makes what a pipeline needs before it starts: bucket, topics and tables. Safe to run again, and with others at once.

    python -m effectively_once create settings.json --source-partitions 4 --replication 1

It ends when the broker names a leader for every partition. Nothing that exists is changed: a topic of another shape is
a named error. A sink that is new to a pipeline which has published begins with the next epoch (`added.py`). Exit codes
are those of `effectively_once.errors`. It needs no Spark.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, Protocol

import tenacity
import urllib3
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from minio import Minio
from minio.error import InvalidResponseError, S3Error, ServerError

from effectively_once.driver import transaction_probe
from effectively_once.driver.sink_topics import SIZE, needed, refuse_expiring, refuse_small
from effectively_once.epoch.publishing import database_of
from effectively_once.errors import AccessError, PipelineError, SinkError, SourceError, UnreachableError
from effectively_once.kafka_client import client_config, refusal
from effectively_once.operate.abandon import added
from effectively_once.operate.create.needs import NOTHING, Needs, make_schema, needs_of, undeclared
from effectively_once.pipeline.columns import DEAD_LETTER
from effectively_once.pipeline.job import Job, job_of
from effectively_once.pipeline.settings import PipelineSettings, load
from effectively_once.pipeline.sinks import GROWTH, RECORD_BYTES
from effectively_once.sinks import tables
from effectively_once.sinks.kafka_shard import ShardAddress
from effectively_once.sources.statement import topic_of
from effectively_once.sources.times import BOUNDS
from effectively_once.store.object_store import S3ObjectStore
from effectively_once.store.s3_client import ACCESS_KEY, SECRET_KEY, client, connections, without_query

EVENT_LOG = "spark-events/"
"""The folder of Spark's event logs. Spark refuses to start when it is missing, so it gets an empty object."""
REQUEST_TIMEOUT_S = 5.0
PAUSE_S = 0.5
_DENIED = ("AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch")
_MADE = ("BucketAlreadyOwnedByYou", "BucketAlreadyExists")
_FORBIDDEN = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)
# Beside what the client itself calls retriable: brokers that are up but fewer than copies are asked for.
_LATER = (
    KafkaError.INVALID_REPLICATION_FACTOR,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NOT_CONTROLLER,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._SSL,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it has to be; `takes` is what its `max.message.bytes` is at least, where that matters."""

    name: str
    partitions: int
    compacted: bool = False
    source: bool = False
    config: tuple[tuple[str, str], ...] = ()
    takes: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """A topic as the broker describes it; `led` are the partitions that have a leader."""

    partitions: int
    led: frozenset[int]
    cleanup_policy: str = "delete"
    record_bytes: int = RECORD_BYTES


class NotYetError(Exception):
    """Something that is waited for is not there; the message is the evidence."""


class Broker(Protocol):
    """What is asked of Kafka. Both raise NotYetError while it does not answer, and PipelineError when it refuses."""

    def topics(self, names: Sequence[str]) -> Mapping[str, Found]:
        """Describe those of the topics that exist."""
        ...

    def make(self, topics: Sequence[Topic], replication: int) -> None:
        """Make topics; one that exists meanwhile is left as it is."""
        ...


def topics_of(job: Job, source_partitions: int | None) -> list[Topic]:
    """Return the topics of a pipeline: rows and marks of every sink, a start's own, the source when it is asked for."""
    settings = job.settings
    found = [Topic(settings.topic, source_partitions, source=True)] if source_partitions else []
    if settings.sources:
        found += [Topic(topic_of(settings.topic), 1, compacted=True, source=True)]
    for sink in job.pipeline.kafka_sinks:
        shard = ShardAddress(settings.kafka_bootstrap, settings.pipeline, sink, 0)
        found += [Topic(shard.topic, settings.shards, takes=needed(job.pipeline, sink))]
        found += [Topic(shard.progress, settings.shards, compacted=True)]
    return [*found, Topic(transaction_probe.name_topic(settings.pipeline), 1, config=transaction_probe.CONFIG)]


def too_small(job: Job, record_bytes: int) -> Iterator[str]:
    """Say which sinks may not take what a record of so many bytes becomes, and what happens to such a record."""
    what = f"a record of topic {job.settings.topic} may have {record_bytes:,} bytes"
    for sink in job.pipeline.kafka_sinks:
        takes = needed(job.pipeline, sink)
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
    if found.partitions != topic.partitions:
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


def step(broker: Broker, wanted: Sequence[Topic], replication: int) -> None:
    """Make what is missing and look at everything once.

    Raises:
        NotYetError: naming topics that are missing and partitions without a leader.
        PipelineError: something is there and is not as it has to be.

    """
    found = broker.topics([topic.name for topic in wanted])
    missing = [topic for topic in wanted if topic.name not in found]
    if missing:
        broker.make(missing, replication)
        raise NotYetError("not yet known to the broker: " + ", ".join(topic.name for topic in missing))
    leaderless = []
    for topic in wanted:
        refuse_other_shape(topic, found[topic.name])
        without = set(range(topic.partitions)) - found[topic.name].led
        leaderless += [f"{topic.name}/{number}" for number in sorted(without)]
    if leaderless:
        raise NotYetError("without a leader: " + ", ".join(leaderless))


def until(what: str, where: str, deadline_s: float, attempt: Callable[[], None], pause_s: float = PAUSE_S) -> None:
    """Repeat `attempt` until it no longer raises NotYetError.

    Raises:
        UnreachableError: the deadline passed; it carries the evidence of the last attempt.

    """
    try:
        tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(NotYetError),
            wait=tenacity.wait_fixed(pause_s),
            stop=tenacity.stop_after_delay(deadline_s),
            reraise=True,
        )(attempt)
    except NotYetError as last:
        raise UnreachableError(
            f"{what}: not done within {deadline_s:g} s; {last}",
            where,
            "Check that it runs and is reachable from here; then run this again, it goes on where it stopped.",
        ) from last


class KafkaCluster:
    """The broker, by its administrator's interface."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin = AdminClient({**client_config(bootstrap), "reconnect.backoff.max.ms": 1000})

    def topics(self, names: Sequence[str]) -> Mapping[str, Found]:
        """See Broker."""
        try:
            known = self._admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics
            there = [name for name in names if name in known and known[name].error is None]
            of = self._settings(there)
        except KafkaException as error:
            self._fail(error.args[0], "topics")
        return {
            name: Found(
                len(known[name].partitions),
                frozenset(number for number, at in known[name].partitions.items() if at.leader >= 0),
                of[name]["cleanup.policy"],
                int(of[name][SIZE]),
            )
            for name in there
        }

    def make(self, topics: Sequence[Topic], replication: int) -> None:
        """See Broker."""
        wanted = [
            NewTopic(
                topic.name,
                topic.partitions,
                replication,
                config={
                    **dict(topic.config),
                    **({SIZE: str(topic.takes)} if topic.takes else {}),
                    "cleanup.policy": "compact" if topic.compacted else "delete",
                },
            )
            for topic in topics
        ]
        for name, future in self._admin.create_topics(wanted, request_timeout=REQUEST_TIMEOUT_S).items():
            try:
                future.result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    self._fail(error.args[0], f"topic {name}")

    def _settings(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        if not names:
            return {}
        asked = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        answers = self._admin.describe_configs(asked, request_timeout=REQUEST_TIMEOUT_S)
        return {
            resource.name: {key: str(entry.value) for key, entry in future.result().items()}
            for resource, future in answers.items()
        }

    def _fail(self, error: KafkaError, where: str) -> NoReturn:
        if error.code() in _FORBIDDEN:
            raise AccessError(f"Kafka refuses: {error.str()}", where, "Check the permissions of this client.")
        if (refused := refusal(error, self._bootstrap, where, self._admin)) is not None:
            raise refused
        # A topic may be gone again between two questions.
        if error.retriable() or error.code() in (*_LATER, KafkaError.UNKNOWN_TOPIC_OR_PART):
            raise NotYetError(f"{where}: {error.str()}")
        raise SinkError(f"Kafka refuses: {error.str()}", where, "Correct it, then run this again.")


def make_bucket(client: Any, bucket: str, folder: str | None = None) -> None:
    """Make a bucket unless it exists, with a folder of event logs when asked; `client` is a `minio.Minio`.

    Raises:
        NotYetError: the store does not answer.
        AccessError: it refuses.

    """
    try:
        if not client.bucket_exists(bucket):
            _make_unless_made(client, bucket)
        if folder is not None:
            client.put_object(bucket, folder, io.BytesIO(b""), 0)
    except S3Error as error:
        _refused(error, bucket)
    except (urllib3.exceptions.HTTPError, ServerError, InvalidResponseError) as error:
        raise NotYetError(without_query(error)[:300]) from error


def _make_unless_made(client: Any, bucket: str) -> None:
    try:
        client.make_bucket(bucket)
    except S3Error as error:
        # Somebody was quicker; whether it is ours to use shows at the first write.
        if error.code not in _MADE:
            raise


def _refused(error: S3Error, bucket: str) -> NoReturn:
    if error.code in _DENIED:
        raise AccessError(
            f"the object store refuses: {error.code}", f"bucket {bucket}", f"Check {ACCESS_KEY} and {SECRET_KEY}."
        ) from error
    raise NotYetError(f"{error.code}: {error.message}") from error


def _store(settings: PipelineSettings) -> Minio:
    http = connections(REQUEST_TIMEOUT_S)
    return client(settings.bucket.host, secure=settings.bucket.secure, http=http)


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
    added.begin(job, S3ObjectStore(settings.bucket), say)


def _record_bytes(settings: PipelineSettings, needs: Needs, deadline_s: float) -> int:
    """How large a record of the source may be: of the one that is there, else as its job needs it."""
    broker, found = KafkaCluster(settings.kafka_bootstrap), int(needs.config.get(SIZE, RECORD_BYTES))

    def look() -> None:
        nonlocal found
        there = broker.topics([settings.topic])
        found = there[settings.topic].record_bytes if settings.topic in there else found

    until("topics", settings.kafka_bootstrap, deadline_s, look)
    return found


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
    client = _store(settings)
    for bucket in dict.fromkeys([settings.s3_bucket, *([event_log_bucket] if event_log_bucket else [])]):
        folder = event_log_folder if bucket == event_log_bucket else None
        made = partial(make_bucket, client, bucket, folder)
        until(f"bucket {bucket}", settings.s3_endpoint, deadline_s, made)
        say(f"bucket {bucket} is there")
    broker = KafkaCluster(settings.kafka_bootstrap)
    of_source = tuple({**BOUNDS, **needs.config}.items())
    wanted = [
        replace(topic, config=of_source) if topic.name == settings.topic else topic
        for topic in topics(_record_bytes(settings, needs, deadline_s))
    ]
    wanted += _needed(broker, settings.topic, needs, source_partitions, deadline_s)
    until("topics", settings.kafka_bootstrap, deadline_s, lambda: step(broker, wanted, replication))
    say("every partition has a leader: " + ", ".join(f"{topic.name} ({topic.partitions})" for topic in wanted))
    make_schema(settings.database, needs, patience_s=deadline_s, say=say)


def _needed(
    broker: Broker, source: str, needs: Needs, source_partitions: int | None, deadline_s: float
) -> Iterator[Topic]:
    """Topics that a job needs, as wide as its source, which is waited for where somebody else makes it."""
    found = source_partitions or 0

    def look() -> None:
        nonlocal found
        there = broker.topics([source])
        if source not in there:
            raise NotYetError(f"topic {source} is not there")
        found = there[source].partitions

    if needs.topics and not found:
        until(f"topic {source}", "the job's further topics are to be as wide", deadline_s, look)
    for name in needs.topics:
        yield Topic(name, found, config=tuple(needs.config.items()))


def _number(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text}: at least 1")
    return value


def main(argv: Sequence[str]) -> int:
    """Read the command line, do it, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m effectively_once create", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("settings", type=Path, help="settings file of the pipeline")
    parser.add_argument("--whole", type=Path, help="what the job's program reads, where that is another file")
    parser.add_argument("--source-partitions", type=_number, help="make the source too, with so many partitions")
    parser.add_argument("--replication", type=_number, default=1, help="copies of every topic")
    parser.add_argument("--event-log-bucket", help="bucket that gets a folder for Spark's event logs")
    parser.add_argument("--event-log-folder", default=EVENT_LOG, help="its name, with a slash at the end")
    parser.add_argument("--deadline-s", type=float, default=300.0, help="seconds for bucket and for topics")
    given = parser.parse_args(argv)
    try:
        how: dict[str, Any] = {
            "replication": given.replication,
            "deadline_s": given.deadline_s,
            "source_partitions": given.source_partitions,
            "event_log_bucket": given.event_log_bucket,
            "event_log_folder": given.event_log_folder,
            "say": lambda line: sys.stdout.write(line + "\n"),
        }
        settings = load(given.settings)
        needs = needs_of(settings.job, given.whole or given.settings)
        if undeclared(settings.job):
            source = [Topic(settings.topic, given.source_partitions, source=True)] if given.source_partitions else []
            create_needed(settings, needs, lambda _: source, **how)
        else:
            create(job_of(given.settings), needs=needs, **how)
    except PipelineError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0
