"""Rows of epochs for a sink of Kafka, and what of them is visible."""

from __future__ import annotations

from effectively_once.sinks.kafka_shard import Row, ShardAddress, seen_mark
from tests.stack.reader import values


def rows_of(epoch: int, number: int = 3) -> list[Row]:
    return [(None, f"e{epoch}-r{n}".encode()) for n in range(number)]


def visible(shard: ShardAddress) -> list[str]:
    return values(shard.bootstrap, shard.topic, shard.shard)


def mark_epoch(shard: ShardAddress) -> int | None:
    mark = seen_mark(shard)
    return None if mark is None else mark.epoch
