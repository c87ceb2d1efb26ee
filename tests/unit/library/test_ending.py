"""A shard ends what hangs as a transaction of its own: against answers of a made-up coordinator and partition."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from kafka.errors import (
    BrokerResponseError,
    ClusterAuthorizationFailedError,
    ConcurrentTransactionsError,
    NotCoordinatorError,
    OperationNotAttemptedError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
    for_code,
)
from kafka.protocol.producer.transaction import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)

from effectively_once.errors import SinkError, UnreachableError
from effectively_once.sinks import markers, shard_admin
from effectively_once.sinks.ending import Hanging
from effectively_once.sinks.kafka_shard import ShardAddress

SHARD = ShardAddress("b:1", "p", "s", 3, transaction_timeout_s=7)
HANGS, ITS_MARK = Hanging(SHARD.topic, 5, 6, 7, 40), Hanging(SHARD.progress, 5, 6, 7, 20)
BOTH = (HANGS, ITS_MARK)
CODES = {
    "begin": InitProducerIdRequest,
    "join": AddPartitionsToTxnRequest,
    "end": EndTxnRequest,
}


@dataclass
class Broker:
    """What is open in two partitions, and a coordinator that writes markers for what takes part in a transaction.

    Attributes:
        open: of the partitions; another producer may have put something else there.
        refuses: request -> codes that it is answered with, one after the other, before it is carried out.
        markers: commits and aborts that the partitions got, each with the producer that they are of.
        late: looks at the partitions after a marker that do not see it yet.
        may_write_markers: whether we have the right on the cluster.
        coordinator: node that it is on. It moves whenever it says that it is there no more.

    """

    open: list[Hanging] = field(default_factory=lambda: [*BOTH])
    producer_id: int = 5
    epoch: int = 6
    refuses: dict[str, list[int]] = field(default_factory=dict)
    markers: list[tuple[str, int, int, bool]] = field(default_factory=list)
    asked: list[Any] = field(default_factory=list)
    late: int = 0
    may_write_markers: bool = False
    joined: set[tuple[str, int]] = field(default_factory=set)
    coordinator: int = 2
    closing: bool = False

    def answer(self, request: Any) -> Any:
        name = next(name for name, kind in CODES.items() if isinstance(request, kind))
        self.asked.append(request)
        code = (self.refuses.get(name) or [0]).pop(0)
        self.coordinator += code == NotCoordinatorError.errno
        return getattr(self, name)(request, code)

    def begin(self, request: Any, code: int) -> Any:
        assert (request.transactional_id, request.transaction_timeout_ms) == ("p.s.3", 7000)
        if not code:
            self.epoch += 1
            self.joined.clear()
        return InitProducerIdResponse(error_code=code, producer_id=self.producer_id, producer_epoch=self.epoch)

    def join(self, request: Any, code: int) -> Any:
        self._ours(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        topics = request.v3_and_below_topics
        if not code:
            self.joined = {(topic.name, number) for topic in topics for number in topic.partitions}
        kind = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
        of_one = kind.AddPartitionsToTxnPartitionResult
        # Where one may not be used, nobody tries the others.
        codes = [code] * len(topics)
        if code == TopicAuthorizationFailedError.errno:
            codes[:-1] = [OperationNotAttemptedError.errno] * (len(topics) - 1)
        told = [
            kind(name=topic.name, results_by_partition=[of_one(partition_index=3, partition_error_code=each)])
            for topic, each in zip(topics, codes, strict=True)
        ]
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=told)

    def end(self, request: Any, code: int) -> Any:
        self._ours(request.producer_id, request.producer_epoch)
        if not code:
            said = request.producer_id, request.producer_epoch, request.committed
            self.markers += [(topic, *said) for topic, number in sorted(self.joined) if number == SHARD.shard]
            self.closing = True
        return EndTxnResponse(error_code=code)

    def _ours(self, producer_id: int, epoch: int) -> None:
        assert (producer_id, epoch) == (self.producer_id, self.epoch), "a coordinator refuses any other"

    def look(self) -> list[Hanging]:
        if self.closing and self.late:
            self.late -= 1
        elif self.closing:
            ended = {topic for topic, *_ in self.markers}
            self.open = [each for each in self.open if each.topic not in ended]
        return self.open


class Admin(shard_admin.ShardAdmin):
    """The administrator, with the broker in the place of its connections."""

    def __init__(self, broker: Broker, **config: Any) -> None:
        self.broker = broker
        self._manager = self.cluster = self
        self._coordinators: dict[str, int] = {}
        self.closed = False

    def close(self) -> None:
        self.closed = True

    def run(self, coroutine: Any, *arguments: Any) -> Any:
        step = coroutine(*arguments)
        try:
            while True:
                step.send(None)
        except StopIteration as ended:
            return ended.value

    async def _find_coordinator_id(self, key: str, key_type: Any) -> int:
        assert (key, key_type.name) == ("p.s.3", "TRANSACTION")
        return self._coordinators.setdefault(key, self.broker.coordinator)

    async def send(self, request: Any, node_id: int) -> Any:
        assert node_id == self.broker.coordinator, "it is asked where it was"
        version = request._max_version
        request.encode(version=version)
        return self.broker.answer(request)

    def commit(self, spec: Any) -> None:
        self._marker(spec, commit=True)

    def abort_transaction(self, spec: Any) -> None:
        self._marker(spec, commit=False)

    def _marker(self, spec: Any, *, commit: bool) -> None:
        if not self.broker.may_write_markers:
            raise ClusterAuthorizationFailedError
        self.broker.markers.append((spec.topic_partition.topic, spec.producer_id, spec.producer_epoch, commit))


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    made = Broker()
    monkeypatch.setattr(shard_admin, "ShardAdmin", lambda **config: Admin(made, **config))
    monkeypatch.setattr(markers, "read_open", lambda *_: iter(made.look()))
    monkeypatch.setattr(markers, "PAUSE_S", 0.001)
    monkeypatch.setattr(markers, "PATIENCE_S", 0.2)
    return made


def of_both(epoch: int, commit: bool) -> list[tuple[str, int, int, bool]]:
    return [(each.topic, 5, epoch, commit) for each in BOTH]


@pytest.mark.parametrize("commit", [True, False])
def test_markers_of_a_newer_epoch_of_the_same_producer_end_it_as_was_decided(broker: Broker, commit: bool) -> None:
    """In one transaction: whoever is killed in it drops rows and mark together."""
    assert markers.write(SHARD, BOTH, commit=commit)
    assert (broker.markers, broker.open) == (of_both(7, commit), [])
    assert [type(request).__name__ for request in broker.asked] == [kind.__name__ for kind in CODES.values()]


@pytest.mark.parametrize("half", [True, False])
def test_a_marker_is_written_directly_by_who_may(broker: Broker, half: bool) -> None:
    """It cannot be cut in two by a kill."""
    broker.may_write_markers = True
    assert markers.write(SHARD, BOTH, commit=True, half=half)
    assert (broker.markers, broker.asked) == (of_both(6, True), [])


@pytest.mark.parametrize("hangs", BOTH)
def test_a_half_is_shown_by_nobody_who_might_be_killed_in_it(broker: Broker, hangs: Hanging) -> None:
    """Rows would stand without their mark, and come again, or the mark without its rows."""
    broker.open = [hangs]
    with pytest.raises(SinkError, match=r"whose other half is visible.*Grant `ClusterAction`"):
        markers.write(SHARD, [hangs], commit=True, half=True)
    assert broker.asked == []
    assert markers.write(SHARD, [hangs], commit=False, half=True), "a kill drops it too"
    assert broker.markers == [(hangs.topic, 5, 7, False)]


@pytest.mark.parametrize(
    "others",
    [
        [],
        [ITS_MARK],
        [Hanging(SHARD.topic, 5, 6, 7, 41), ITS_MARK],
        [HANGS, Hanging(SHARD.progress, 5, 7, 7, 20)],
    ],
    ids=["none", "a half", "another start", "another epoch"],
)
def test_nothing_is_decided_on_but_what_was_looked_at(broker: Broker, others: list[Hanging]) -> None:
    broker.open = others
    assert not markers.write(SHARD, BOTH, commit=True)
    assert broker.markers == []
    assert len(broker.asked) == 1, "it has begun, and asked for nothing else"


def test_a_producer_id_that_was_replaced_ends_nothing(broker: Broker) -> None:
    broker.producer_id = 9
    with pytest.raises(SinkError, match=r"under producer id 5, and its coordinator has given id 9.*sink s shard 3"):
        markers.write(SHARD, BOTH, commit=True)
    assert broker.markers == []


@pytest.mark.parametrize("request_", CODES)
@pytest.mark.parametrize("code", [14, 15, 16, 51])
def test_a_coordinator_that_moves_or_is_at_work_is_asked_again(broker: Broker, request_: str, code: int) -> None:
    broker.refuses = {request_: [code, code]}
    markers.write(SHARD, BOTH, commit=True)
    assert broker.markers == of_both(7, True)


@pytest.mark.parametrize("request_", ["join", "end"])
@pytest.mark.parametrize("code", [47, 90])
def test_a_newer_producer_of_the_shard_is_left_alone(broker: Broker, request_: str, code: int) -> None:
    broker.refuses = {request_: [code]}
    name = for_code(code).__name__
    with pytest.raises(UnreachableError, match=f"{name}.*nothing was lost"):
        markers.write(SHARD, BOTH, commit=True)
    assert broker.markers == []


@pytest.mark.parametrize(
    ("request_", "error"),
    [("begin", TransactionalIdAuthorizationFailedError), ("join", TopicAuthorizationFailedError)],
)
def test_what_is_not_let_us_is_named_with_the_rights_that_it_takes(
    broker: Broker, request_: str, error: type[BrokerResponseError]
) -> None:
    broker.refuses = {request_: [error.errno]}
    with pytest.raises(SinkError, match=r"does not let us end it.*Describe` and `Write` on its transactional id"):
        markers.write(SHARD, BOTH, commit=True)


def test_a_marker_is_waited_for(broker: Broker) -> None:
    """What comes next rests on it: the mark is ended after its rows."""
    broker.late = 5
    markers.write(SHARD, BOTH, commit=True)
    assert (broker.open, broker.late) == ([], 0)


def test_patience_ends(broker: Broker) -> None:
    broker.refuses = {"begin": [ConcurrentTransactionsError.errno] * 10_000}
    with pytest.raises(UnreachableError, match="ConcurrentTransactionsError"):
        markers.write(SHARD, BOTH, commit=True)
