"""A transaction that its coordinator has finished and a partition has not: found, and ended (docs/adr/0074).

A broker that starts again right after it took a commit may note the end of that commit and never tell the partitions
(KAFKA-20734, brokers from 4.1 on). Readers of committed data stop before its rows for ever, and the next transaction of
its producer would decide on them again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import lru_cache

import structlog
from confluent_kafka import Consumer, KafkaException, TopicPartition

from effectively_once.errors import SinkError, UnreachableError
from effectively_once.ledger import digest
from effectively_once.sinks.kafka_rows import read_from, read_rows
from effectively_once.sinks.kafka_shard import (
    ShardAddress,
    consumer_of,
    ends,
    read_seen_mark,
    read_written_mark,
    unreachable,
)
from effectively_once.sinks.publish import Mark

PATIENCE_S = 2.0
"""How long rows may be hidden before it is asked why: a broker writes its markers after it has answered."""
PAUSE_S = 0.05
log = structlog.get_logger()


def end_hanging(address: ShardAddress, timeout_s: float) -> bool:
    """End what hangs in a shard's two partitions, and tell whether something did; else nothing is changed.

    Its rows are shown if all are there with their mark: a driver may have recorded them. They are dropped otherwise:
    nobody was told of them, as a commit is asked for after everything is acknowledged. Whoever publishes next finds the
    mark, or none, as after any other fault.

    Raises:
        UnreachableError: the broker does not answer.
        SinkError: the topics are not there, the broker does not let us end it, or what is right cannot be told.

    """
    try:
        hidden = _is_hidden(address, timeout_s)
    except (UnreachableError, SinkError):
        # Connections of before may not have heard what became of the broker since.
        _connect.cache_clear()
        hidden = _is_hidden(address, timeout_s)
    if not hidden:
        return False
    from effectively_once.sinks import markers  # noqa: PLC0415 - its client takes half a second to import

    # Rows before their mark: who finds the mark may rest on them.
    found = sorted(markers.find(address), key=lambda each: each.topic)
    if not found:
        return False
    whole, half = _decide(address, {each.topic: each.start for each in found}, timeout_s)
    if not markers.write(address, found, commit=whole, half=half):
        # Somebody else has ended it, and maybe otherwise than was decided here.
        end_hanging(address, timeout_s)
        return True
    for each in found:
        log.warning(
            "ended a transaction that the broker had left open",
            topic=each.topic,
            partition=address.shard,
            offset=each.start,
            rows="shown" if whole else "dropped",
        )
    return True


def _is_hidden(address: ShardAddress, timeout_s: float) -> bool:
    """Whether readers of committed data cannot reach the end of a partition, for so long that it is no delay."""
    until = time.monotonic() + min(PATIENCE_S, timeout_s)
    written, committed = (_connect(address.bootstrap, level) for level in ("read_uncommitted", "read_committed"))
    for topic in (address.progress, address.topic):
        where = TopicPartition(topic, address.shard)
        try:
            # In this order: what is written meanwhile hides nothing.
            end = ends(written, where, timeout_s)[1]
            while ends(committed, where, timeout_s)[1] < end:
                if time.monotonic() > until:
                    return True
                time.sleep(PAUSE_S)
        except KafkaException as error:
            raise unreachable(error.args[0], address.bootstrap, topic) from error
    return False


@lru_cache
def _connect(bootstrap: str, isolation: str) -> Consumer:
    # Asked before every transaction of every shard: connected once in a process.
    return consumer_of(bootstrap, isolation)


def _decide(address: ShardAddress, starts: Mapping[str, int], timeout_s: float) -> tuple[bool, bool]:
    """Whether a transaction, open from these offsets on, holds a mark and all rows that the mark tells of.

    And whether these are but a half of it: the other partition has its rows, or its mark, shown or dropped.
    """
    mark, shown = read_written_mark(address, timeout_s), read_seen_mark(address, timeout_s)
    if mark is None or (address.progress not in starts and mark != shown):
        return False, False  # it wrote no mark, or that one was dropped
    if address.topic in starts:
        rows = read_from(address, starts[address.topic], timeout_s)
        whole = len(rows) == mark.rows and digest.of_rows(rows, mark.digest) == mark.digest
        # The mark that is shown may be that of the epoch before, whose rows lie before these.
        doubtful = address.progress not in starts and _shows(address, mark, timeout_s)
    else:
        whole = _shows(address, mark, timeout_s)
        doubtful = shown is not None and (shown.rows, shown.digest) == (mark.rows, mark.digest)
    if whole and mark.rows and doubtful:
        raise SinkError(
            f"a broker left half of a transaction open, and rows of two epochs up to {mark.epoch} are the same, so "
            "whether it was committed cannot be told",
            str(address),
            "Ask `kafka-dump-log.sh` for the marker in the other partition; abort it with `kafka-transactions.sh` if "
            "that says so, else restore chain and sinks from one backup.",
        )
    return whole, bool(mark.rows) and len(starts) == 1


def _shows(address: ShardAddress, mark: Mark, timeout_s: float) -> bool:
    try:
        read_rows(address, mark, timeout_s)
    except SinkError:
        return False
    return True
