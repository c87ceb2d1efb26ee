"""A shard that is opened before anything is published to it is opened as `publish()` opens one that is unknown."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from effectively_once.errors import UnreachableError
from effectively_once.ledger import digest
from effectively_once.ledger.rows import Rows
from effectively_once.sinks import kafka
from effectively_once.sinks.kafka import ShardSink
from effectively_once.sinks.kafka_shard import ShardAddress
from effectively_once.sinks.publish import Committed, Mark
from effectively_once.sinks.transaction import TransactionalSink

MARK = Mark(4, 2, 0, digest.EMPTY)


class Noting(TransactionalSink[Sequence[bytes]]):
    """Notes what it is asked."""

    def __init__(self) -> None:
        super().__init__("here", lambda _: None)
        self.asked: list[object] = []

    def _describe(self, rows: Sequence[bytes], like: str = digest.EMPTY) -> Rows:
        raise AssertionError(rows, like)

    def _open(self, generation: int) -> None:
        self.asked.append(("open", generation))

    def _end_hanging(self, *, kept: bool) -> bool:
        self.asked.append(("end", kept))
        return False

    def _read_mark(self) -> Mark | None:
        self.asked.append("read")
        return MARK

    def _commit(self, mark: Mark, rows: Sequence[bytes]) -> Committed:
        raise AssertionError(mark, rows)


def test_it_is_opened_by_the_generation_that_asks_and_no_producer_is_to_go_on() -> None:
    """That generation is what fences older ones in a table."""
    sink = Noting()
    assert sink._open_at_mark(7) == MARK
    assert sink.asked == [("open", 7), ("end", False), "read"]


def test_a_shard_does_not_begin_where_it_cannot_be_told_what_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mark may be hidden behind it, which would be there twice."""
    asked: list[str] = []

    def refuse(*_: object) -> bool:
        raise UnreachableError("the broker does not answer", "b:1", "Start it.")

    monkeypatch.setattr(kafka, "_open", lambda _: None)
    monkeypatch.setattr(kafka, "end_hanging", refuse)
    monkeypatch.setattr(kafka, "read_mark", lambda *_: asked.append("mark"))
    with pytest.raises(UnreachableError):
        ShardSink(ShardAddress("b:1", "counts", "accepted", 2)).begin(6, 3)
    assert asked == []
