"""Where a driver can be, as numbers.

A driver is a generator, which cannot be copied; but what it does next depends only on the knowledge its phase began
from and on the replies it got since. So a place is a node of the tree of replies below some knowledge, and a generator
is made anew, and fed those replies again, once per place.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from effectively_once.errors import ChainError, SinkError, StaleDriverError
from tests.model.world import Reply, Step


class Knowledge(Hashable, Protocol):
    """All that a driver knows where a phase begins. The last phase is called `done`."""

    @property
    def phase(self) -> str:
        """Name of the phase."""
        ...


K = TypeVar("K", bound=Knowledge)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a driver ended: `done`, `stale` or the text of a refusal."""

    how: str


@dataclass
class Places(Generic[K]):
    """The places of one driver; number 0 is its start."""

    make: Callable[[K], Generator[Step, Any, K]]
    start: K
    _from: list[tuple[K, tuple[Reply, ...]]] = field(default_factory=list)
    _next: list[Step | Ended] = field(default_factory=list)
    _phases: dict[K, int] = field(default_factory=dict)
    _ends: dict[str, int] = field(default_factory=dict)
    _ended_at: set[int] = field(default_factory=set)
    _children: dict[tuple[int, Reply], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Learn what the driver does first."""
        self.of(self.start)

    def at(self, place: int) -> Step | Ended:
        """Return what the driver wants next at a place."""
        return self._next[place]

    def ended(self, place: int) -> bool:
        """Whether the driver ends there."""
        return place in self._ended_at

    def knowledge(self, place: int) -> K:
        """Return what the driver knew where the phase of a place began."""
        return self._from[place][0]

    def after(self, place: int, reply: Reply) -> int:
        """Return the place that a reply leads to."""
        known = self._children.get((place, reply))
        if known is None:
            begun, replies = self._from[place]
            known = self._children[place, reply] = self._played(begun, (*replies, reply))
        return known

    def of(self, knowledge: K) -> int:
        """Return the place where a phase begins."""
        known = self._phases.get(knowledge)
        if known is None:
            known = self._ended(knowledge, "done") if knowledge.phase == "done" else self._played(knowledge, ())
            self._phases[knowledge] = known
        return known

    def _played(self, begun: K, replies: tuple[Reply, ...]) -> int:
        program = self.make(begun)
        try:
            step = next(program)
            for reply in replies:
                step = program.send(reply)
        except StopIteration as end:
            return self.of(end.value)
        except StaleDriverError:
            return self._ended(begun, "stale")
        except (ChainError, SinkError) as refused:
            return self._ended(begun, f"refused: {refused}")
        return self._place(begun, replies, step)

    def _ended(self, begun: K, how: str) -> int:
        if how not in self._ends:
            self._ends[how] = self._place(begun, (), Ended(how))
            self._ended_at.add(self._ends[how])
        return self._ends[how]

    def _place(self, begun: K, replies: tuple[Reply, ...], step: Step | Ended) -> int:
        self._from.append((begun, replies))
        self._next.append(step)
        return len(self._next) - 1
