"""What ends a transaction in a partition: markers, asked for by whom Kafka's coordinator has forgotten."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import AbortTransactionSpec
from kafka.errors import AuthorizationError, KafkaError, TransactionalIdNotFoundError

from effectively_once.errors import SinkError, UnreachableError
from effectively_once.kafka_client import Access
from effectively_once.sinks.kafka_shard import ShardAddress

FINISHED = ("Empty", "CompleteCommit", "CompleteAbort")
"""States of a transactional id of which no partition has a transaction open, says Kafka's protocol."""


@dataclass(frozen=True, slots=True)
class Hanging:
    """An open transaction in one partition, as `kafka-transactions.sh describe-producers` tells it.

    Attributes:
        start: offset of its first record.

    """

    topic: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start: int


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


def write(address: ShardAddress, hanging: Hanging, *, commit: bool) -> None:
    """Write a marker into a partition. The broker refuses it once its producer has begun anew.

    Raises:
        UnreachableError: the broker does not answer.
        SinkError: it does not let us: for the cluster as a whole, the right `ClusterAction` is needed.

    """
    spec = AbortTransactionSpec(
        TopicPartition(hanging.topic, address.shard),
        hanging.producer_id,
        hanging.producer_epoch,
        hanging.coordinator_epoch,
    )
    with _connected(address) as admin:
        if commit:
            admin.commit(spec)
        else:
            admin.abort_transaction(spec)


class _Admin(KafkaAdminClient):  # type: ignore[misc]
    """Kafka's administrators can abort only."""

    def commit(self, spec: AbortTransactionSpec) -> None:
        self._manager.run(self._commit, spec)

    async def _commit(self, spec: AbortTransactionSpec) -> None:
        request = self._abort_transaction_request(spec)
        request.markers[0].transaction_result = True
        (leader,) = await self._async_get_leader_for_partitions([spec.topic_partition])
        self._abort_transaction_process_response(await self._manager.send(request, node_id=leader), spec)


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
            "Grant `Describe` on the topics and the transactional id, and `ClusterAction` on the cluster; then start "
            "the pipeline again.",
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
