"""Open transactions of a shard, asked for and ended by a client that can ask what `confluent_kafka` cannot."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import AbortTransactionSpec
from kafka.errors import (
    AuthorizationError,
    ClusterAuthorizationFailedError,
    KafkaError,
    RetriableError,
    TransactionalIdNotFoundError,
    for_code,
)
from kafka.protocol.metadata import CoordinatorType
from kafka.protocol.producer.transaction import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest

from effectively_once.errors import SinkError, UnreachableError
from effectively_once.kafka_client import Access
from effectively_once.sinks.ending import (
    Await,
    Begin,
    Begun,
    End,
    EndingAnswer,
    EndingRequest,
    Hanging,
    Join,
    Look,
    end,
)
from effectively_once.sinks.kafka_shard import ShardAddress

FINISHED = ("Empty", "CompleteCommit", "CompleteAbort")
"""States of a transactional id of which no partition has a transaction open, says Kafka's protocol."""
PATIENCE_S = 20.0
"""How long a coordinator may be away, or at work on what came before."""
PAUSE_S = 0.05
OF_CLIENTS = {InitProducerIdRequest: 4, AddPartitionsToTxnRequest: 3, EndTxnRequest: 4}
"""Latest versions that fit together: a later `EndTxn` gives the producer another epoch, a later `AddPartitions` is for
brokers alone.
"""
T = TypeVar("T")


def find(address: ShardAddress) -> list[Hanging]:
    """Find transactions of a shard that are open and finished.

    The coordinator notes that one is finished after every partition has its marker. So a transaction that was open
    before the coordinator says so, and is open afterwards, hangs.

    Raises:
        UnreachableError: the broker does not answer.
        SinkError: it does not let us ask.

    """
    with _connected(address) as admin:
        before = set(_open(admin, address))
        try:
            told = admin.describe_transactions([address.transactional_id])[address.transactional_id]
        except TransactionalIdNotFoundError:
            return []
        if told.state not in FINISHED:
            return []
        return [each for each in _open(admin, address) if each in before and each.producer_id == told.producer_id]


def write(address: ShardAddress, found: Sequence[Hanging], *, commit: bool, half: bool = False) -> bool:
    """End what hangs of one transaction: by markers, in order, where we may write them, else by one of the shard's own.

    The latter fences every producer of the shard. The broker refuses a marker once its producer has begun anew.

    Args:
        address: the shard.
        found: as `find` told it.
        commit: show its rows.
        half: the other partition has its part of it already.

    Returns:
        Whether it was there still; else nothing was decided.

    Raises:
        UnreachableError: the broker does not answer, or another producer of the shard began meanwhile.
        SinkError: it does not let us, or gave the shard another producer id.

    """
    with _connected(address) as admin:
        for number, each in enumerate(found):
            try:
                admin.mark(address, each, commit=commit)
            except ClusterAuthorizationFailedError:
                return _end(admin, address, found[number:], commit=commit, half=half or number > 0)
    return True


def _end(admin: _Admin, address: ShardAddress, found: Sequence[Hanging], *, commit: bool, half: bool) -> bool:
    step = end(found, str(address), commit=commit, half=half)
    answer: EndingAnswer = None
    while True:
        try:
            request = step.send(answer)
        except StopIteration as ended:
            was_there: bool = ended.value
            return was_there
        answer = _answer(admin, address, found, request)


def _answer(admin: _Admin, address: ShardAddress, found: Sequence[Hanging], request: EndingRequest) -> EndingAnswer:
    match request:
        case Begin():
            return _patiently(lambda: admin.begin(address))
        case Look():
            return {*found} <= {*_open(admin, address)}
        case Join(begun):
            _patiently(lambda: admin.join(address, begun, [each.topic for each in found]))
        case End(begun, commit):
            _patiently(lambda: admin.end(address, begun, commit))
        case Await():
            _patiently(lambda: _closed(admin, address, found))
    return None


def _patiently(ask: Callable[[], T]) -> T:
    """Ask again while the coordinator moves, loads, or is at work on what came before."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return ask()
        except RetriableError:
            if time.monotonic() > until:
                raise
        time.sleep(PAUSE_S)


class _OpenError(RetriableError):  # type: ignore[misc]
    """The marker is not there yet."""


def _closed(admin: _Admin, address: ShardAddress, found: Sequence[Hanging]) -> None:
    if left := {*found} & {*_open(admin, address)}:
        raise _OpenError(f"{', '.join(sorted(each.topic for each in left))} has not got its marker")


class _Admin(KafkaAdminClient):  # type: ignore[misc]
    """An administrator that commits, where Kafka's can abort only, and that speaks as a producer does too."""

    def mark(self, address: ShardAddress, hanging: Hanging, *, commit: bool) -> None:
        partition = TopicPartition(hanging.topic, address.shard)
        spec = AbortTransactionSpec(partition, hanging.producer_id, hanging.producer_epoch, hanging.coordinator_epoch)
        if commit:
            self.commit(spec)
        else:
            self.abort_transaction(spec)

    def commit(self, spec: AbortTransactionSpec) -> None:
        self._manager.run(self._commit, spec)

    async def _commit(self, spec: AbortTransactionSpec) -> None:
        request = self._abort_transaction_request(spec)
        request.markers[0].transaction_result = True
        (leader,) = await self._async_get_leader_for_partitions([spec.topic_partition])
        self._abort_transaction_process_response(await self._manager.send(request, node_id=leader), spec)

    def begin(self, address: ShardAddress) -> Begun:
        timeout_ms = address.transaction_timeout_s * 1000
        told = self._ask(
            address, InitProducerIdRequest, transactional_id=address.transactional_id, transaction_timeout_ms=timeout_ms
        )
        _refuse(told.error_code)
        return Begun(told.producer_id, told.producer_epoch)

    def join(self, address: ShardAddress, begun: Begun, topics: Sequence[str]) -> None:
        kind = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        told = self._ask(
            address,
            AddPartitionsToTxnRequest,
            v3_and_below_transactional_id=address.transactional_id,
            v3_and_below_producer_id=begun.producer_id,
            v3_and_below_producer_epoch=begun.producer_epoch,
            v3_and_below_topics=[kind(name=topic, partitions=[address.shard]) for topic in topics],
        )
        # Lowest first: of the others is said (55) that nobody tried.
        for code in sorted(
            partition.partition_error_code
            for each in told.results_by_topic_v3_and_below
            for partition in each.results_by_partition
        ):
            _refuse(code)

    def end(self, address: ShardAddress, begun: Begun, commit: bool) -> None:
        told = self._ask(
            address,
            EndTxnRequest,
            transactional_id=address.transactional_id,
            producer_id=begun.producer_id,
            producer_epoch=begun.producer_epoch,
            committed=commit,
        )
        _refuse(told.error_code)

    def _ask(self, address: ShardAddress, kind: Any, **fields: Any) -> Any:
        return self._manager.run(self._to_coordinator, address, kind(**fields, max_version=OF_CLIENTS[kind]))

    async def _to_coordinator(self, address: ShardAddress, request: Any) -> Any:
        # It may have moved since it was found.
        self._manager.cluster._coordinators.clear()
        where = await self._find_coordinator_id(address.transactional_id, key_type=CoordinatorType.TRANSACTION)
        return await self._manager.send(request, node_id=where)


def _refuse(code: int) -> None:
    if code:
        raise for_code(code)()


@contextmanager
def _connected(address: ShardAddress) -> Iterator[_Admin]:
    where = f"{address}, broker {address.bootstrap}"
    try:
        access = Access.of(os.environ).kafka_python()
        admin = _Admin(bootstrap_servers=address.bootstrap, client_id="effectively-once.hanging", **access)
        try:
            yield admin
        finally:
            admin.close()
    except AuthorizationError as error:
        raise SinkError(
            f"the broker left a transaction open that it has finished, and does not let us end it: {error}",
            where,
            "Grant `Read` and `Write` on the shard's topics, and `Describe` and `Write` on its transactional id; then "
            "start the pipeline again.",
        ) from error
    except KafkaError as error:
        raise UnreachableError(
            f"asking for open transactions: {type(error).__name__}: {error}",
            where,
            "Check the broker; nothing was lost, start the pipeline again.",
        ) from error


def _open(admin: _Admin, address: ShardAddress) -> Iterator[Hanging]:
    partitions = [TopicPartition(topic, address.shard) for topic in (address.topic, address.progress)]
    for partition, told in admin.describe_producers(partitions).items():
        for each in told.active_producers:
            if each.current_transaction_start_offset >= 0:
                yield Hanging(
                    partition.topic,
                    each.producer_id,
                    each.producer_epoch,
                    each.coordinator_epoch,
                    each.current_transaction_start_offset,
                )
