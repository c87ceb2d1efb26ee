"""A broker whose transactions do not hold is refused at a start; whoever comes between, or was killed, is not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewTopic

from effectively_once import Pipeline, ToFiles
from effectively_once.driver import preflight, transaction_probe
from effectively_once.driver.broker_probe import TopicFacts
from effectively_once.driver.preflight import Preflight
from effectively_once.driver.transaction_probe import TRIES, TransactionProbe
from effectively_once.errors import AccessError, PipelineError, SinkError, UnreachableError
from effectively_once.ledger.layout import Layout
from effectively_once.pipeline.job import Job
from tests.settings import pipeline_settings

NAME = "clicks.start-probe"
PROBE = TransactionProbe("broker:1", "clicks", copies=3, transaction_timeout_s=7, patience_s=0.05)
OPEN, COMMITTED, ABORTED, MARKER = "open", "committed", "aborted", "marker"
MISSING, TAKEN = KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._FENCED


def failure(code: int) -> KafkaException:
    return KafkaException(KafkaError(code))


@dataclass
class Record:
    """What lies at an offset, and what became of its transaction; a marker has no value."""

    value: bytes
    state: str


@dataclass
class Broker:
    """One topic of a broker, and how it fails."""

    log: list[Record] = field(default_factory=list)
    epoch: int = 0
    topic: bool = True
    made: list[NewTopic] = field(default_factory=list)
    shows: tuple[str, ...] = (COMMITTED,)
    twice: bool = False
    refuses: dict[str, int] = field(default_factory=dict)
    others: int = 0
    """So often another start takes the id after a record was written."""
    markers: int = 0
    """So many polls come before the last markers are written."""
    unread: list[int] = field(default_factory=list)
    """Errors that a reader meets first."""
    opened: list[dict[str, Any]] = field(default_factory=list)
    closed: int = 0

    def refuse(self, what: str) -> None:
        if what in self.refuses:
            raise failure(self.refuses[what])

    def end(self, state: str) -> None:
        for record in self.log:
            record.state = state if record.state == OPEN else record.state

    def future(self, what: str) -> Any:
        def result() -> None:
            self.refuse(what)
            if what == "describe" and not self.topic:
                raise failure(MISSING)

        return SimpleNamespace(result=result)

    def admin(self, _: dict[str, Any]) -> Any:
        def create_topics(topics: list[NewTopic], request_timeout: float) -> dict[str, Any]:
            assert request_timeout > 0
            self.made += topics
            return {NAME: self.future("create")}

        return SimpleNamespace(
            describe_topics=lambda *_, **__: {NAME: self.future("describe")},
            create_topics=create_topics,
            poll=lambda _: None,
        )

    def consumer(self, bootstrap: str, isolation: str) -> Consumer:
        assert (bootstrap, isolation) == ("broker:1", "read_committed")
        return Consumer(self)


class Producer:
    """One of its producers: whoever is initialised later fences it."""

    def __init__(self, broker: Broker, settings: dict[str, Any]) -> None:
        self.broker, self.epoch = broker, 0
        broker.opened.append(settings)

    def list_topics(self, topic: str, timeout: float) -> None:
        assert (topic, timeout) == (NAME, PROBE.patience_s)

    def init_transactions(self, _: float) -> None:
        self.broker.refuse("init")
        self.broker.end(ABORTED)
        self.broker.epoch += 1
        self.epoch = self.broker.epoch

    def begin_transaction(self) -> None:
        self.broker.refuse("begin")

    def produce(
        self, topic: str, value: bytes, key: bytes, *, partition: int, on_delivery: Callable[[Any, Any], None]
    ) -> None:
        assert (topic, partition, key) == (NAME, 0, b"probe")
        self.told: list[Callable[[], None]] = []
        offset = len(self.broker.log)
        self.broker.log.append(Record(value, OPEN))
        wrong = KafkaError(self.broker.refuses["produce"]) if "produce" in self.broker.refuses else None
        if "deliver" not in self.broker.refuses:
            self.told.append(lambda: on_delivery(wrong, SimpleNamespace(offset=lambda: offset)))

    def flush(self, _: float) -> None:
        for tell in self.told:
            tell()

    def commit_transaction(self, _: float) -> None:
        self._end(COMMITTED)

    def abort_transaction(self, _: float) -> None:
        self._end(ABORTED)

    def _end(self, state: str) -> None:
        if self.broker.others:
            self.broker.others -= 1
            self.broker.epoch += 1
            self.broker.end(ABORTED)
        self.broker.refuse(state)
        if self.epoch != self.broker.epoch:
            raise failure(TAKEN)
        self.broker.end(state)
        self.broker.log.append(Record(b"", MARKER))


class Consumer:
    """A reader; where it reaches the end, it is told so."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.left: Iterable[Any] = iter(())

    def assign(self, places: list[Any]) -> None:
        (place,) = places
        assert (place.topic, place.partition) == (NAME, 0)
        self.left = iter(self._read(place.offset))

    def _read(self, start: int) -> list[Any]:
        told = [self._message(code=code) for code in self.broker.unread]
        told += [self._message(code=KafkaError._PARTITION_EOF, offset=start) for _ in range(self.broker.markers)]
        for record in self.broker.log[start:]:
            if record.state == OPEN:
                return told
            if record.state in self.broker.shows:
                told += [self._message(value=record.value)] * (1 + self.broker.twice)
        return [*told, self._message(code=KafkaError._PARTITION_EOF, offset=len(self.broker.log))]

    def _message(self, *, value: bytes = b"", code: int | None = None, offset: int = 0) -> Any:
        error = None if code is None else KafkaError(code)
        return SimpleNamespace(error=lambda: error, value=lambda: value, offset=lambda: offset)

    def poll(self, _: float) -> Any:
        return next(cast("Any", self.left), None)

    def close(self) -> None:
        self.broker.closed += 1


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    made = Broker()
    monkeypatch.setattr(transaction_probe, "Producer", lambda settings: Producer(made, settings))
    monkeypatch.setattr(transaction_probe, "AdminClient", made.admin)
    monkeypatch.setattr(transaction_probe, "consumer_of", made.consumer)
    monkeypatch.setattr(transaction_probe, "PAUSE_S", 0.001)
    return made


def refused(kind: type[PipelineError] = SinkError) -> PipelineError:
    with pytest.raises(kind) as error:
        PROBE.run()
    assert type(error.value) is kind
    return error.value


def test_a_broker_that_shows_what_was_committed_and_nothing_else_is_taken(broker: Broker) -> None:
    PROBE.run()
    assert [record.state for record in broker.log] == [COMMITTED, MARKER, ABORTED, MARKER]
    (settings,) = broker.opened
    assert (settings["transactional.id"], settings["transaction.timeout.ms"]) == (NAME, 7000)
    assert (broker.made, broker.closed) == ([], 1)


def test_a_broker_that_shows_what_was_aborted_is_refused(broker: Broker) -> None:
    broker.shows = (COMMITTED, ABORTED)
    error = refused()
    assert error.what == "the Kafka broker shows readers of committed records one that was aborted"
    assert error.where == f"broker:1, topic {NAME}"
    assert error.todo == "Use a broker with Kafka's transactions, or reach it past the proxy; nothing was changed."


def test_a_broker_that_hides_what_was_committed_is_refused(broker: Broker) -> None:
    broker.shows = ()
    assert refused().what == "the Kafka broker shows 0 times a record that was committed once"


def test_a_broker_that_shows_a_record_twice_is_refused(broker: Broker) -> None:
    broker.twice = True
    assert refused().what == "the Kafka broker shows 2 times a record that was committed once"


@pytest.mark.parametrize(
    "code", [KafkaError.UNSUPPORTED_VERSION, KafkaError._UNSUPPORTED_FEATURE, KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT]
)
@pytest.mark.parametrize("at", ["init", "begin", "produce", COMMITTED, ABORTED])
def test_a_server_without_transactions_is_refused_by_that_name(broker: Broker, at: str, code: int) -> None:
    broker.refuses[at] = code
    assert refused().what.startswith("the Kafka broker has no transactions: ")


def test_a_transaction_that_may_not_stay_open_so_long_names_both_settings(broker: Broker) -> None:
    broker.refuses["init"] = KafkaError.INVALID_TRANSACTION_TIMEOUT
    error = refused()
    assert "for 7 s" in error.what
    assert "transaction_timeout_s" in error.todo
    assert "transaction.max.timeout.ms" in error.todo


@pytest.mark.parametrize("at", ["init", "begin", "produce", COMMITTED, ABORTED, "describe"])
def test_who_has_no_rights_is_told_so(broker: Broker, at: str) -> None:
    broker.refuses[at] = KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert NAME in refused(AccessError).what


@pytest.mark.parametrize("code", [KafkaError._TIMED_OUT, KafkaError.COORDINATOR_NOT_AVAILABLE])
def test_a_coordinator_that_is_not_there_names_the_settings_of_its_log(broker: Broker, code: int) -> None:
    broker.refuses["init"] = code
    assert "transaction.state.log.replication.factor" in refused(UnreachableError).todo


def test_a_broker_that_is_silent_is_an_outage(broker: Broker) -> None:
    broker.refuses["describe"] = KafkaError._TRANSPORT
    assert "does not answer" in refused(UnreachableError).what
    broker.refuses = {"deliver": 0}
    assert "was not acknowledged" in refused(UnreachableError).what


def test_a_topic_that_nobody_made_is_made_once(broker: Broker) -> None:
    """A pipeline of an older version, or one whose topics are made by hand, has none."""
    broker.topic = False
    PROBE.run()
    (made,) = broker.made
    assert (made.topic, made.num_partitions, made.replication_factor) == (NAME, 1, 3)
    assert made.config["message.timestamp.type"] == "LogAppendTime"


@pytest.mark.parametrize(
    ("code", "kind", "says"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, AccessError, "which is missing: `effectively-once create` makes it"),
        (KafkaError._TRANSPORT, UnreachableError, "does not answer"),
    ],
)
def test_a_topic_that_cannot_be_made_has_a_name(
    broker: Broker, code: int, kind: type[PipelineError], says: str
) -> None:
    broker.topic, broker.refuses = False, {"create": code}
    assert says in refused(kind).what


def test_of_two_starts_that_make_the_topic_both_go_on(broker: Broker) -> None:
    broker.topic, broker.refuses = False, {"create": KafkaError.TOPIC_ALREADY_EXISTS}
    PROBE.run()
    assert len(broker.made) == 1


@pytest.mark.parametrize("others", [1, 2, TRIES - 1])
def test_another_start_at_once_is_waited_for(broker: Broker, others: int) -> None:
    """It fenced this one: nothing is wrong with the broker."""
    broker.others = others
    PROBE.run()
    assert len(broker.opened) == others + 1


@pytest.mark.parametrize("fatal", [KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError._FATAL])
def test_starts_that_never_let_it_are_an_error_at_last(broker: Broker, fatal: int) -> None:
    broker.refuses[COMMITTED] = fatal
    error = refused(UnreachableError)
    assert f"transactional id {NAME} in each of {TRIES} tries" in error.what
    assert len(broker.opened) == TRIES


def test_a_fatal_error_that_the_client_raises_beside_itself_is_a_fence(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: list[int] = []

    def flush(producer: Producer, _: float) -> None:
        if not raised:
            raised.append(1)
            raise SystemError
        for tell in producer.told:
            tell()

    monkeypatch.setattr(Producer, "flush", flush)
    PROBE.run()
    assert len(broker.opened) == 2


def test_what_a_killed_start_left_open_is_ended_by_the_next_one(broker: Broker) -> None:
    broker.log.append(Record(b"of before", OPEN))
    PROBE.run()
    assert broker.log[0].state == ABORTED


def test_markers_are_waited_for(broker: Broker) -> None:
    """A broker answers an abort before it writes them: a reader that stops there has seen nothing yet."""
    broker.markers, broker.shows = 1, (COMMITTED, ABORTED)
    assert "one that was aborted" in refused().what


def test_an_end_that_is_never_reached_names_the_topic_that_may_be_deleted(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Producer, "abort_transaction", lambda *_: None)
    error = refused(UnreachableError)
    assert "did not get past offset 2" in error.what
    assert "it may be deleted" in error.todo


def test_a_topic_that_a_broker_does_not_know_yet_is_read_a_moment_later(broker: Broker) -> None:
    broker.unread = [MISSING, KafkaError._UNKNOWN_PARTITION]
    PROBE.run()


def test_a_reader_that_is_refused_is_told_so(broker: Broker) -> None:
    broker.unread = [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    assert NAME in refused(AccessError).what


WELL = TopicFacts(copies=3, in_sync=3, min_insync=2, retention_ms=-1, retention_bytes=-1)


def start(**settings: Any) -> Preflight:
    pipeline = Pipeline(lambda frame: frame, pa.schema([("user", pa.string())]), rows=(ToFiles("raw"),))
    job = Job(pipeline, pipeline_settings(start_patience_s=2.0, transaction_timeout_s=9, **settings))
    return Preflight(job, Layout("clicks"), cast("Any", None), cast("Any", None))


def test_each_start_tries_store_and_broker(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the patience and the time of its settings, and as many copies as topics of the sinks have."""
    tried: list[Any] = []

    def note(probe: TransactionProbe) -> None:
        tried.append(probe)

    facts = {"events": WELL, "clicks.dead_letter": TopicFacts(2, 2, 2, -1, -1)}
    monkeypatch.setattr(preflight, "ask", lambda *_: facts)
    monkeypatch.setattr(TransactionProbe, "run", note)
    monkeypatch.setattr(Preflight, "probe_store", lambda _: tried.append("store"))
    checks = start()
    checks.probe()
    address = checks.settings.kafka_bootstrap
    assert tried == ["store", TransactionProbe(address, "clicks", 2, 9, 2.0)]
    tried.clear()
    start(semantics="at_least_once").probe()
    assert tried == ["store"]
    facts["clicks.dead_letter"] = TopicFacts(1, 1, 2, -1, -1)
    with pytest.raises(SinkError, match=r"min\.insync\.replicas is 2"):
        start().probe()
