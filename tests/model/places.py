"""Where a driver can be, as numbers.

A driver is a generator, which cannot be copied; but what it does next depends only on the `At` its phase began from and
on the replies it got since. So a place is a node of the tree of replies below an `At`, and a generator is made anew,
and fed those replies again, once per place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from effectively_once.errors import ChainError, SinkError, StaleDriverError
from effectively_once.sinks.publish import FencedError
from tests.model.program import At, Phase
from tests.model.world import Reply, Step


@dataclass(frozen=True, slots=True)
class Ended:
    """How a driver ended: `done`, `stale` or the text of a refusal."""

    how: str


@dataclass
class Places:
    """The places of one driver; number 0 is its start."""

    make: Callable[[At], Phase]
    _from: list[tuple[At, tuple[Reply, ...]]] = field(default_factory=list)
    _next: list[Step | Ended] = field(default_factory=list)
    _phases: dict[At, int] = field(default_factory=dict)
    _children: dict[tuple[int, Reply], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Learn what the driver does first."""
        self._phase(At())

    def at(self, place: int) -> Step | Ended:
        """Return what the driver wants next at a place."""
        return self._next[place]

    def after(self, place: int, reply: Reply) -> int:
        """Return the place that a reply leads to."""
        known = self._children.get((place, reply))
        if known is None:
            at, replies = self._from[place]
            known = self._children[place, reply] = self._played(at, (*replies, reply))
        return known

    def _phase(self, at: At) -> int:
        known = self._phases.get(at)
        if known is None:
            known = self._ended("done") if at.phase == "done" else self._played(at, ())
            self._phases[at] = known
        return known

    def _played(self, at: At, replies: tuple[Reply, ...]) -> int:
        program = self.make(at)
        try:
            step = next(program)
            for reply in replies:
                step = program.send(reply)
        except StopIteration as end:
            return self._phase(end.value)
        except (StaleDriverError, FencedError):
            return self._ended("stale")
        except (ChainError, SinkError) as refused:
            return self._ended(f"refused: {refused}")
        return self._place(at, replies, step)

    def _ended(self, how: str) -> int:
        key = At(phase=how)
        if key not in self._phases:
            self._phases[key] = self._place(key, (), Ended(how))
        return self._phases[key]

    def _place(self, at: At, replies: tuple[Reply, ...], step: Step | Ended) -> int:
        self._from.append((at, replies))
        self._next.append(step)
        return len(self._next) - 1
