"""One operator of dedup: takes records, drops copies, passes on, notes, commits, in this order.

The order is all there is to it. What a crash leaves behind, point by point:

- before anything was passed on: nothing happened; the records are read again.
- passed on (in part, or whole), not noted: they are read again, are new again, and meet the same state, so the same is
  passed on again. The next operator has the ids, or takes them now.
- noted, not committed: they are read again, and are copies. What came of them was passed on before it was noted.
- committed: done.

So nothing is lost because what is noted was passed on before, and nothing counts twice because what is read again was
noted together with its effect. It needs a function that answers the same to the same records on the same state, and
records of a key that come again in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from effectively_once_jobs.two_ways.memory import Delta, Memory
from effectively_once_jobs.two_ways.running import Record

TAKEN, PASSED_ON, NOTED = "taken", "passed_on", "noted"
"""Points of a turn: records are there and nothing was done; acknowledged by the next; durable, not committed."""


class Source(Protocol):
    """What the operator reads."""

    def read(self) -> Sequence[Record]:
        """Return the next records, in the order of each partition; none when none came in a while."""
        ...

    def commit(self) -> None:
        """What was read is not read again."""
        ...


class Kept(Protocol):
    """Where the memory is durable."""

    def keep(self, delta: Delta) -> None:
        """Note a turn; on return it is durable."""
        ...

    def tidy(self, memory: Memory) -> None:
        """Tidy up, where it is time to."""
        ...


@dataclass
class Stage:
    """An operator that runs.

    Attributes:
        source: what it reads.
        pass_on: hands over to whoever is next; on return it is acknowledged.
        memory: restored from `notes`.
        notes: where the memory is durable.
        at: told when the operator is at a point, with the number of records that it takes and of copies that it drops.

    """

    source: Source
    pass_on: Callable[[Sequence[Record]], None]
    memory: Memory
    notes: Kept
    at: Callable[[str, int, int], None] = lambda _point, _taken, _copies: None

    def turn(self) -> int:
        """Take what has come; how many records that were."""
        records = self.source.read()
        if not records:
            return 0
        new = self.memory.new(records)
        copies = len(records) - len(new)
        self.at(TAKEN, len(new), copies)
        if new:
            found, delta = self.memory.take(new)
            self.pass_on(found)
            self.at(PASSED_ON, len(new), copies)
            self.notes.keep(delta)
            self.memory.fold(delta)
            self.at(NOTED, len(new), copies)
        self.source.commit()
        self.notes.tidy(self.memory)
        return len(records)
