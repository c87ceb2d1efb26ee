"""A client of one shard that asks and ends what `confluent_kafka` cannot: open transactions, and their markers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import AbortTransactionSpec
from kafka.errors import AuthorizationError, KafkaError, for_code
from kafka.protocol.metadata import CoordinatorType
from kafka.protocol.producer.transaction import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest

from effectively_once.errors import SinkError, UnreachableError
from effectively_once.kafka_client import Access
from effectively_once.sinks.ending import Begun, Hanging
from effectively_once.sinks.kafka_shard import ShardAddress

OF_CLIENTS = {InitProducerIdRequest: 4, AddPartitionsToTxnRequest: 3, EndTxnRequest: 4}
"""Latest versions that fit together: a later `EndTxn` gives the producer another epoch, a later `AddPartitions` is for
brokers alone.
"""


class ShardAdmin(KafkaAdminClient):  # type: ignore[misc]
    """An administrator that commits, where Kafka's can abort only, and that speaks as a producer does too."""

    def mark(self, address: ShardAddress, hanging: Hanging, *, commit: bool) -> None:
        """Write the marker that a partition lacks; it takes the right `ClusterAction`."""
        partition = TopicPartition(hanging.topic, address.shard)
        spec = AbortTransactionSpec(partition, hanging.producer_id, hanging.producer_epoch, hanging.coordinator_epoch)
        if commit:
            self.commit(spec)
        else:
            self.abort_transaction(spec)

    def commit(self, spec: AbortTransactionSpec) -> None:
        """Write a marker that commits, as `abort_transaction` writes one that aborts."""
        self._manager.run(self._commit, spec)

    async def _commit(self, spec: AbortTransactionSpec) -> None:
        request = self._abort_transaction_request(spec)
        request.markers[0].transaction_result = True
        (leader,) = await self._async_get_leader_for_partitions([spec.topic_partition])
        self._abort_transaction_process_response(await self._manager.send(request, node_id=leader), spec)

    def begin(self, address: ShardAddress) -> Begun:
        """Begin anew under the shard's transactional id, which fences every other producer of it."""
        timeout_ms = address.transaction_timeout_s * 1000
        told = self._ask(
            address, InitProducerIdRequest, transactional_id=address.transactional_id, transaction_timeout_ms=timeout_ms
        )
        _refuse(told.error_code)
        return Begun(told.producer_id, told.producer_epoch)

    def join(self, address: ShardAddress, begun: Begun, topics: Sequence[str]) -> None:
        """Make the shard's partitions of these topics parts of the transaction."""
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
        """Commit or abort the transaction."""
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


@contextmanager
def connect(address: ShardAddress) -> Iterator[ShardAdmin]:
    """Connect to the shard's broker, and name what it refuses meanwhile.

    Raises:
        UnreachableError: the broker does not answer.
        SinkError: it does not let us ask, or end.

    """
    where = f"{address}, broker {address.bootstrap}"
    try:
        access = Access.of(os.environ).kafka_python()
        admin = ShardAdmin(bootstrap_servers=address.bootstrap, client_id="effectively-once.hanging", **access)
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


def read_open(admin: ShardAdmin, address: ShardAddress) -> Iterator[Hanging]:
    """Yield the transactions that are open in the shard's partitions, whoever's they are."""
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


def _refuse(code: int) -> None:
    if code:
        raise for_code(code)()
