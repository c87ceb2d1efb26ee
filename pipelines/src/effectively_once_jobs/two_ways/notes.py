"""Where an operator of dedup keeps its memory: a note a turn, created once, and now and then all of them as one.

Below `<pipeline>/<operator>/`: `notes/<number>`, and `whole/<number>`, which holds every note up to that number. Notes
that a whole holds, and the whole before it, are deleted. A start reads the newest whole and the notes behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from effectively_once.errors import CheckpointError, StaleDriverError
from effectively_once.ledger.objects import Delete, ObjectStore, body_of, create_once, run
from effectively_once_jobs.two_ways.memory import Delta, Memory

EVERY = 50
"""Notes after which they are written as one: what a start reads at most, and a turn in so many pays for."""


class Store(ObjectStore, Protocol):
    """An object store that tells names."""

    def names(self, prefix: str) -> Iterator[str]:
        """Yield the names below a prefix, in order."""
        ...


class Notes:
    """The notes of one operator."""

    def __init__(self, store: Store, pipeline: str, operator: int) -> None:
        self._store, self._folder = store, f"{pipeline}/{operator:02}"
        self._next = 0
        self._whole = -1

    def restore(self, memory: Memory) -> int:
        """Have an empty memory remember what is noted; how many objects that took.

        Raises:
            CheckpointError: one of them is not readable, or missing.

        """
        wholes, notes = self._numbers("whole"), self._numbers("notes")
        self._whole = max(wholes, default=-1)
        behind = [number for number in notes if number > self._whole]
        # Numbers have no gap, and nothing behind a whole is deleted: a note that is not listed is lost, not done with.
        if behind != [*range(self._whole + 1, self._whole + 1 + len(behind))]:
            raise CheckpointError(
                f"notes {behind[0]} to {behind[-1]} of an operator have a gap behind {self._whole}",
                f"{self._folder}/notes",
                "Put the objects back from the bucket's versions.",
            )
        names = [self._name("whole", self._whole)] if wholes else []
        for name in (*names, *(self._name("notes", number) for number in behind)):
            memory.fold(Delta.decode(run(body_of(name), self._store) or b"", name))
        self._next = max([self._whole, *behind]) + 1
        return len(names) + len(behind)

    def keep(self, delta: Delta) -> None:
        """Note a turn; on return it is durable.

        Raises:
            StaleDriverError: another process has noted a turn of this number: it runs the same operator.

        """
        name, body = self._name("notes", self._next), delta.encode()
        if run(create_once(name, body), self._store) != body:
            raise StaleDriverError(
                "another process runs this operator", name, "Look which one is to run, and end the other."
            )
        self._next += 1

    def tidy(self, memory: Memory) -> None:
        """Write notes as one where there are many; the memory holds them all."""
        last = self._next - 1
        if last - self._whole < EVERY:
            return
        run(create_once(self._name("whole", last), memory.whole().encode()), self._store)
        for number in range(self._whole + 1, last + 1):
            self._store.answer(Delete(self._name("notes", number)))
        if self._whole >= 0:
            self._store.answer(Delete(self._name("whole", self._whole)))
        self._whole = last

    def _numbers(self, kind: str) -> list[int]:
        return sorted(int(name.rpartition("/")[2]) for name in self._store.names(f"{self._folder}/{kind}/"))

    def _name(self, kind: str, number: int) -> str:
        return f"{self._folder}/{kind}/{number:09}"
