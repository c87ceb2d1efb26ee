"""Open transactions of a shard: which of them hang, and how they are ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from kafka.errors import ClusterAuthorizationFailedError, RetriableError, TransactionalIdNotFoundError

from effectively_once.sinks.ending import (
    Await,
    Begin,
    End,
    EndingAnswer,
    EndingRequest,
    Hanging,
    Join,
    Look,
    end,
)
from effectively_once.sinks.kafka_shard import ShardAddress
from effectively_once.sinks.shard_admin import ShardAdmin, connect, read_open

FINISHED = ("Empty", "CompleteCommit", "CompleteAbort")
"""States of a transactional id of which no partition has a transaction open, says Kafka's protocol."""
PATIENCE_S = 20.0
"""How long a coordinator may be away, or at work on what came before."""
PAUSE_S = 0.05
T = TypeVar("T")


def find(address: ShardAddress) -> list[Hanging]:
    """Find transactions of a shard that are open and finished.

    The coordinator notes that one is finished after every partition has its marker. So a transaction that was open
    before the coordinator says so, and is open afterwards, hangs.

    Raises:
        UnreachableError: the broker does not answer.
        SinkError: it does not let us ask.

    """
    with connect(address) as admin:
        before = set(read_open(admin, address))
        try:
            told = admin.describe_transactions([address.transactional_id])[address.transactional_id]
        except TransactionalIdNotFoundError:
            return []
        if told.state not in FINISHED:
            return []
        return [each for each in read_open(admin, address) if each in before and each.producer_id == told.producer_id]


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
    with connect(address) as admin:
        for number, each in enumerate(found):
            try:
                admin.mark(address, each, commit=commit)
            except ClusterAuthorizationFailedError:
                return _end(admin, address, found[number:], commit=commit, half=half or number > 0)
    return True


def _end(admin: ShardAdmin, address: ShardAddress, found: Sequence[Hanging], *, commit: bool, half: bool) -> bool:
    step = end(found, str(address), commit=commit, half=half)
    answer: EndingAnswer = None
    while True:
        try:
            request = step.send(answer)
        except StopIteration as ended:
            was_there: bool = ended.value
            return was_there
        answer = _answer(admin, address, found, request)


def _answer(admin: ShardAdmin, address: ShardAddress, found: Sequence[Hanging], request: EndingRequest) -> EndingAnswer:
    match request:
        case Begin():
            return _patiently(lambda: admin.begin(address))
        case Look():
            return {*found} <= {*read_open(admin, address)}
        case Join(begun):
            _patiently(lambda: admin.join(address, begun, [each.topic for each in found]))
        case End(begun, commit):
            _patiently(lambda: admin.end(address, begun, commit))
        case Await():
            _patiently(lambda: _require_closed(admin, address, found))
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


def _require_closed(admin: ShardAdmin, address: ShardAddress, found: Sequence[Hanging]) -> None:
    if left := {*found} & {*read_open(admin, address)}:
        raise _OpenError(f"{', '.join(sorted(each.topic for each in left))} has not got its marker")
