"""Rows of epochs for a sink of Kafka, and what of them is visible."""

from __future__ import annotations

from effectively_once.sinks.kafka_shard import Row, ShardAddress, read_seen_mark
from infra.embedded.process import wait_for
from tests.stack.reader import TIMEOUT_S, values


def rows_of(epoch: int, number: int = 3) -> list[Row]:
    return [(None, f"e{epoch}-r{n}".encode()) for n in range(number)]


def visible(shard: ShardAddress) -> list[str]:
    return values(shard.bootstrap, shard.topic, shard.shard)


def names_of(*epochs: int) -> list[str]:
    return [value.decode() for epoch in epochs for _, value in rows_of(epoch)]


def assert_visible(shard: ShardAddress, names: list[str]) -> None:
    """A commit is answered before its markers are written: a reader has its rows once they are."""
    wait_for(f"rows of {shard.topic}", TIMEOUT_S, lambda: len(visible(shard)) >= len(names))
    assert visible(shard) == names


def mark_epoch(shard: ShardAddress) -> int | None:
    mark = read_seen_mark(shard)
    return None if mark is None else mark.epoch
