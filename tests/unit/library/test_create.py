"""Bucket and topics of a pipeline: what is made, what is waited for, what is refused."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import urllib3
from minio.error import S3Error

from effectively_once import ToKafka
from effectively_once.errors import AccessError, PipelineError, SinkError, SourceError, UnreachableError
from effectively_once.operate.create.broker import step
from effectively_once.operate.create.bucket import EVENT_LOG, make_bucket
from effectively_once.operate.create.create_command import main
from effectively_once.operate.create.topics import Found, Topic, too_small, topics_of
from effectively_once.operate.create.wait import NotYetError, until
from effectively_once.pipeline.job import Job
from effectively_once.pipeline.sinks import MESSAGE_BYTES, RECORD_BYTES
from effectively_once_jobs.user_counts import pipeline
from tests.settings import pipeline_settings
from tests.unit.library.names import KAFKA_SINKS

SETTINGS = pipeline_settings(s3_bucket="clicks", shards=3)
JOB = Job(pipeline, SETTINGS)


class MemoryBroker:
    """Topics in memory; a new one is known, and then led, after as many looks as it is told."""

    def __init__(self, *, unknown_looks: int = 0, leaderless_looks: int = 0) -> None:
        self.known: dict[str, Found] = {}
        self.made: list[tuple[Topic, int]] = []
        self._pending: dict[str, Topic] = {}
        self._unknown_looks, self._leaderless_looks = unknown_looks, leaderless_looks

    def topics(self, names: Sequence[str]) -> Mapping[str, Found]:
        for name, topic in self._pending.items():
            led = frozenset(range(topic.partitions)) if self._leaderless_looks <= 0 else frozenset({0})
            policy = "compact" if topic.compacted else "delete"
            if self._unknown_looks <= 0:
                self.known[name] = Found(topic.partitions, led, policy, topic.takes)
        if self._pending and self._unknown_looks <= 0:
            self._leaderless_looks -= 1
        self._unknown_looks -= 1
        return {name: self.known[name] for name in names if name in self.known}

    def widen(self, topics: Sequence[Topic]) -> None:
        for topic in topics:
            found = self.known[topic.name]
            led = frozenset(range(topic.partitions))
            self.known[topic.name] = replace(found, partitions=topic.partitions, led=led)

    def make(self, topics: Sequence[Topic], replication: int) -> None:
        for topic in topics:
            if topic.name not in self._pending:
                self.made.append((topic, replication))
            self._pending[topic.name] = topic


def repeated(attempt: Callable[[], None], deadline_s: float = 5.0) -> None:
    until("topics", "broker:9092", deadline_s, attempt, pause_s=0.001)


def test_topics_of_a_pipeline() -> None:
    """Rows and compacted marks for each sink, a partition a shard; the source only when it is asked for.

    And one that starts try transactions in, which nobody reads: it does not grow.
    """
    without, with_source = topics_of(JOB, None), topics_of(JOB, 6)
    tried = without.pop()
    assert (tried.name, tried.partitions, tried.compacted) == ("clicks.start-probe", 1, False)
    assert dict(tried.config)["retention.ms"] == dict(tried.config)["segment.ms"] == "86400000"
    assert {topic.name for topic in without} == {
        f"clicks.{sink}{end}" for sink in KAFKA_SINKS for end in ("", ".progress")
    }
    assert {topic.partitions for topic in without} == {3}
    assert all(topic.compacted == topic.name.endswith(".progress") for topic in without)
    assert set(with_source) - {*without, tried} == {Topic("events", 6, source=True)}


def test_the_topic_of_each_sink_takes_what_its_messages_may_have() -> None:
    """And a batch of small ones, which is as large as a topic takes by default."""
    rows = (ToKafka("small", message_bytes_max=70_000), ToKafka("large", message_bytes_max=20_000_000))
    takes = {topic.name: topic.takes for topic in topics_of(Job(replace(pipeline, rows=rows), SETTINGS), 2)}
    assert {name: bytes_ for name, bytes_ in takes.items() if bytes_} == {
        "clicks.small": 1_048_588,
        "clicks.large": 20_000_000,
        "clicks.dead_letter": MESSAGE_BYTES,
        "clicks.user_counts": MESSAGE_BYTES,
    }


def test_whatever_becomes_of_a_record_of_the_default_size_fits_and_else_it_is_told() -> None:
    assert list(too_small(JOB, RECORD_BYTES)) == []
    refused = "one whose message in {} is larger than 12,648,592, its message_bytes_max, is refused"
    assert [line.partition(" bytes: ")[2] for line in too_small(JOB, 10_000_000)] == [
        refused.format("accepted"),
        "of one that is refused and larger than 9,486,444 the dead letter has a digest",
        refused.format("user_counts"),
    ]


@pytest.mark.parametrize("looks", [{}, {"unknown_looks": 3}, {"leaderless_looks": 3}])
def test_everything_is_made_once_and_waited_for(looks: dict[str, int]) -> None:
    """However long the broker takes to know a topic, and to find leaders."""
    broker, wanted = MemoryBroker(**looks), topics_of(JOB, 2)
    repeated(lambda: step(broker, wanted, 3))
    assert [topic for topic, _ in broker.made] == wanted
    assert {copies for _, copies in broker.made} == {3}
    repeated(lambda: step(broker, wanted, 3))
    assert len(broker.made) == len(wanted)


def test_a_wait_ends_with_its_evidence() -> None:
    """The partitions that have no leader are named, with what was waited for, where and how long."""
    broker = MemoryBroker(leaderless_looks=10**9)
    with pytest.raises(UnreachableError) as error:
        repeated(lambda: step(broker, [Topic("events", 2)], 1), deadline_s=0.05)
    assert "topics: not done within 0.05 s; without a leader: events/1 (broker:9092)" in str(error.value)


def test_other_errors_end_the_wait_at_once() -> None:
    """What cannot become good is not waited for."""
    seen: list[int] = []

    def refuse() -> None:
        seen.append(1)
        raise SinkError("no", "here", "Do.")

    with pytest.raises(SinkError):
        repeated(refuse)
    assert len(seen) == 1


def topic_with(partitions: int, *more: Any, **how: Any) -> Found:
    return Found(partitions, frozenset(range(partitions)), *more, **how)


ROWS = Topic("clicks.accepted", 3, takes=2_000_000, grows=True)
MARKS = Topic("clicks.accepted.progress", 3, compacted=True, grows=True)


@pytest.mark.parametrize(
    ("topic", "there", "error", "said"),
    [
        (Topic("events", 4, source=True), topic_with(3), SourceError, "3 partitions, asked for are 4"),
        (Topic("clicks.probe", 1), topic_with(2), SinkError, "2 partitions, asked for are 1"),
        (MARKS, topic_with(3, "delete"), SinkError, "cleanup.policy=delete"),
        (
            MARKS,
            topic_with(3, "compact,delete"),
            SinkError,
            "--topic clicks.accepted.progress --add-config cleanup.policy=compact",
        ),
        (
            ROWS,
            topic_with(3, record_bytes=1_999_999),
            SinkError,
            "may have 2,000,000 .*--topic clicks.accepted --add-config max.message.bytes=2000000",
        ),
    ],
)
def test_another_shape_is_refused(topic: Topic, there: Found, error: type[PipelineError], said: str) -> None:
    """A topic that exists is not changed, but for the partitions of more shards."""
    broker = MemoryBroker()
    broker.known[topic.name] = there
    with pytest.raises(error, match=said):
        repeated(lambda: step(broker, [topic], 1))
    assert broker.made == []
    assert broker.known == {topic.name: there}


@pytest.mark.parametrize(("there", "partitions"), [(2, 3), (3, 3), (5, 5)])
def test_topics_of_sinks_get_partitions_for_more_shards_and_keep_those_of_former_ones(
    there: int, partitions: int
) -> None:
    broker = MemoryBroker()
    broker.known = {ROWS.name: topic_with(there, record_bytes=2_000_000), MARKS.name: topic_with(there, "compact")}
    repeated(lambda: step(broker, [ROWS, MARKS], 1))
    assert {found.partitions for found in broker.known.values()} == {partitions}
    assert broker.made == []


class MemoryStore:
    """The four calls of minio's client, or their error."""

    def __init__(self, *, there: bool = False, errors: Mapping[str, Exception] | None = None) -> None:
        self.there, self.errors = there, dict(errors or {})
        self.objects: list[tuple[str, str]] = []
        self.made = 0

    def _call(self, name: str) -> None:
        if name in self.errors:
            raise self.errors[name]

    def bucket_exists(self, bucket: str) -> bool:
        self._call("bucket_exists")
        return self.there

    def make_bucket(self, bucket: str) -> None:
        self.made += 1
        self._call("make_bucket")
        self.there = True

    def put_object(self, bucket: str, name: str, data: io.BytesIO, length: int) -> None:
        self._call("put_object")
        self.objects.append((bucket, name))


def refusal(code: str) -> S3Error:
    answer: Any = urllib3.HTTPResponse(status=403)
    return S3Error(answer, code, "said the store", "/b", "1", "2")


def test_bucket_is_made_once() -> None:
    """With the folder of event logs only when that is asked for."""
    store = MemoryStore()
    make_bucket(store, "b")
    make_bucket(store, "b", EVENT_LOG)
    assert (store.made, store.objects) == (1, [("b", EVENT_LOG)])


def test_a_bucket_that_somebody_else_just_made_is_as_good() -> None:
    """And its folder is made all the same."""
    store = MemoryStore(errors={"make_bucket": refusal("BucketAlreadyOwnedByYou")})
    make_bucket(store, "b", EVENT_LOG)
    assert store.objects == [("b", EVENT_LOG)]


@pytest.mark.parametrize("call", ["bucket_exists", "make_bucket", "put_object"])
def test_refused_credentials_are_named(call: str) -> None:
    """They do not become right by waiting."""
    with pytest.raises(AccessError, match=r"InvalidAccessKeyId.*AWS_ACCESS_KEY_ID"):
        make_bucket(MemoryStore(errors={call: refusal("InvalidAccessKeyId")}), "b", EVENT_LOG)


@pytest.mark.parametrize("error", [urllib3.exceptions.HTTPError("refused"), refusal("SlowDown")])
def test_a_store_that_starts_is_waited_for(error: Exception) -> None:
    """No answer, and answers that ask for patience."""
    with pytest.raises(NotYetError):
        make_bucket(MemoryStore(errors={"bucket_exists": error}), "b")


def test_exit_codes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of the named errors: settings, credentials, and a store that is not there."""
    path = tmp_path / "settings.json"
    assert main([str(path)]) == 64
    path.write_text(SETTINGS.model_dump_json())
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    assert main([str(path)]) == 64
    assert "AWS_ACCESS_KEY_ID" in capsys.readouterr().err
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "never shown")
    assert main([str(path), "--deadline-s", "0.1"]) == 69
    told = capsys.readouterr().err
    assert "bucket clicks: not done within 0.1 s" in told
    assert "never shown" not in told
