"""Worlds as numbers: what may become of each, and what is wrong with it, looked at once however often it is met."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from effectively_once.sinks.publish import Committed
from tests.model.inputs import Rows
from tests.model.world import Reply, Step, World, kind

H = TypeVar("H", bound=Hashable)
Row = tuple[int, str]
"""Epoch, and what is visible of it."""


@dataclass(frozen=True)
class Claims:
    """What must hold in every world.

    Attributes:
        owner: name of the driver that head belongs to.
        visible: what readers see.
        wrong: what is wrong with a world, of which that is visible; None: nothing.
        changed: what is wrong with a change of what is visible.

    """

    owner: Callable[[World], str | None]
    visible: Callable[[World], tuple[Row, ...]]
    wrong: Callable[[World, tuple[Row, ...]], str | None]
    changed: Callable[[tuple[Row, ...], tuple[Row, ...]], str | None]


class Numbered(Generic[H]):
    """Values as small numbers, in the order in which they were met."""

    def __init__(self) -> None:
        self._numbers: dict[H, int] = {}
        self.values: list[H] = []

    def of(self, value: H) -> int:
        """Number of a value."""
        number = self._numbers.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number


class Outside:
    """The worlds of an exploration.

    Attributes:
        owners: owner of head in each world.
        wrong: what is wrong with each; None: nothing.
        met: kinds of requests and answers, as `kind` tells them.

    """

    def __init__(self, claims: Claims) -> None:
        self._claims = claims
        self._worlds: Numbered[World] = Numbered()
        self._steps: Numbered[Step] = Numbered()
        self._answers: dict[tuple[int, int], list[tuple[Reply, int]]] = {}
        self._answered: set[tuple[int, object]] = set()
        self._happenings: dict[int, list[int]] = {}
        self._quiet: dict[int, int] = {}
        self._rows: Numbered[tuple[Row, ...]] = Numbered()
        self._visible: list[int] = []
        self.owners: list[str | None] = []
        self.wrong: list[str | None] = []
        self.met: set[str] = set()

    def begin(self, world: World) -> int:
        """Enter a first world."""
        return self._entered(world)

    def value(self, world: int) -> World:
        """Return a world itself."""
        return self._worlds.values[world]

    def replies(self, world: int, step: Step) -> list[tuple[Reply, int]]:
        """Every answer that a request may get, with the world after it."""
        number = self._steps.of(step)
        known = self._answers.get((world, number))
        if known is None:
            known = self._answers[world, number] = []
            for reply, after in self.value(world).replies(step):
                known.append((reply, self._entered(after)))
                answered = number, reply if isinstance(reply, Committed | Rows) else type(reply)
                if answered not in self._answered:
                    self._answered.add(answered)
                    self.met.add(kind(step, reply))
        return known

    def happenings(self, world: int) -> list[int]:
        """Worlds that may come about without a driver."""
        known = self._happenings.get(world)
        if known is None:
            known = self._happenings[world] = [self._entered(after) for after in self.value(world).happenings()]
        return known

    def failing(self, world: int) -> int:
        """Return the world after one failure, of those that may still happen."""
        return self._entered(self.value(world).failing)

    def quiet(self, world: int) -> int:
        """Return the world in which nothing goes wrong from now on."""
        known = self._quiet.get(world)
        if known is None:
            known = self._quiet[world] = self._entered(self.value(world).quiet)
        return known

    def lost(self, before: int, after: int) -> str | None:
        """Name what was visible in a world, and is not in the one after it."""
        if self._visible[before] == self._visible[after]:
            return None
        return self._claims.changed(self._rows.values[self._visible[before]], self._rows.values[self._visible[after]])

    def _entered(self, world: World) -> int:
        """Return the number of a world, and look at it if it is new."""
        number = self._worlds.of(world)
        if number == len(self._visible):
            rows = self._claims.visible(world)
            self._visible.append(self._rows.of(rows))
            self.owners.append(self._claims.owner(world))
            self.wrong.append(self._claims.wrong(world, rows))
        return number
