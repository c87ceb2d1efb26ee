"""What the sinks with transactions share: one shard, and what is kept of it between epochs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Generic, TypeVar

from effectively_once.ledger import digest
from effectively_once.ledger.rows import Rows
from effectively_once.sinks.publish import (
    Commit,
    Committed,
    EndHanging,
    Mark,
    Open,
    Published,
    ReadMark,
    SinkAnswer,
    SinkRequest,
    publish,
)

C = TypeVar("C")


class TransactionalSink(ABC, Generic[C]):
    """Publishes the epochs of one shard by `publish()`; remembers the mark it committed last.

    `announce` is told `transaction_open` when rows and mark are at the server and not committed, then `committed`.
    """

    def __init__(self, where: str, announce: Callable[[str], None]) -> None:
        """`where` is the shard, for messages."""
        self.announce = announce
        self._where = where
        self._kept: Mark | None = None

    def publish(self, epoch: int, generation: int, rows: C) -> tuple[Rows, Published]:
        """Publish an epoch's rows, or find that they were published before.

        Raises:
            FencedError: another one took over; this sink opens anew when it is asked again.
            SinkError: the epoch is there with other rows, or the rows are refused.
            UnreachableError: the server does not answer.

        """
        content = self._describe(rows)
        mark = Mark(epoch, generation, content.rows, content.digest)
        # Forgotten until the commit is known: an error on the way leaves nothing behind that looks trustworthy.
        step = publish(mark, self._kept, self._where)
        self._kept = None
        try:
            request = next(step)
            while True:
                answer = self._answer(request, rows)
                request = step.send(self._in_our_form(answer, rows, mark) if isinstance(answer, Mark) else answer)
        except StopIteration as end:
            published: Published = end.value
        self._kept = mark if published is Published.NOW else None
        return content, published

    def _answer(self, request: SinkRequest, rows: C) -> SinkAnswer:
        match request:
            case Open(generation):
                self._open(generation)
                return None
            case EndHanging(kept):
                return self._end_hanging(kept=kept)
            case ReadMark():
                return self._read_mark()
            case Commit(mark):
                return self._commit(mark, rows)

    def _in_our_form(self, mark: Mark, rows: C, ours: Mark) -> Mark:
        """Tell the mark that an older version wrote with these rows as this version would have written it."""
        if mark.epoch != ours.epoch or not digest.is_former(mark.digest):
            return mark
        same = self._describe(rows, mark.digest).digest == mark.digest
        return replace(mark, digest=ours.digest) if same else mark

    def _open_at_mark(self, generation: int) -> Mark | None:
        """Open the shard and read its mark, as `publish()` does where nothing is kept."""
        self._open(generation)
        self._end_hanging(kept=False)
        return self._read_mark()

    @abstractmethod
    def _describe(self, rows: C, like: str = digest.EMPTY) -> Rows:
        """Count the rows, and digest them in the form of the digest `like`."""

    @abstractmethod
    def _open(self, generation: int) -> None:
        """See Open."""

    def _end_hanging(self, *, kept: bool) -> bool:  # noqa: ARG002 - as Kafka needs it
        """See EndHanging. Most servers leave nothing open."""
        return False

    @abstractmethod
    def _read_mark(self) -> Mark | None:
        """See ReadMark."""

    @abstractmethod
    def _commit(self, mark: Mark, rows: C) -> Committed:
        """See Commit."""
