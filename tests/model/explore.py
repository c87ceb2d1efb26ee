"""Every interleaving of two drivers, breadth first, with states met before not entered again."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic

from tests.model.outside import Claims, Outside
from tests.model.places import Ended, K, Places
from tests.model.world import World, describe

State = tuple[int, int, int, int]
"""World, places of driver A and of driver B, and of what runs beside them: all as numbers."""
A, B, BESIDE = range(3)
NAMES = ("A", "B")
NONE = -1
"""Nothing runs beside them. Otherwise it is three times the place, plus A or B whose attempt it is, or BESIDE."""


@dataclass(frozen=True, slots=True)
class Explored:
    """What an exploration came to: sizes, the first hole found (None: none), and the shortest way to it.

    `ends` is how drivers ended, the third among them; `met` are the kinds of requests and answers.
    """

    states: int
    transitions: int
    hole: str | None
    way: tuple[str, ...]
    ends: frozenset[str]
    met: frozenset[str]


@dataclass(frozen=True)
class Game(Generic[K]):
    """What is explored.

    Attributes:
        world: where it starts.
        claims: what must hold everywhere.
        drivers: A and B.
        finisher: a third driver, which is started alone from every state, the others having died there.
        ended: what is wrong with a world in which the finisher has ended so; None: nothing.
        excused: whether the owner of head may end so.
        repeats: what a driver knows when it repeats a task, and whether the attempt that it is at is left running.
        same_task: whether an attempt that was left behind is still in its task.
        beside: another process, which runs from the beginning; then no attempt is left behind.

    """

    world: World
    claims: Claims
    drivers: tuple[Places[K], Places[K]]
    finisher: Places[K]
    ended: Callable[[World, str], str | None]
    excused: Callable[[str], bool] = lambda _: False
    repeats: Callable[[K], Iterable[tuple[K, bool]]] = lambda _: ()
    same_task: Callable[[K, K], bool] = lambda *_: False
    beside: Places[K] | None = None


class Exploration(Generic[K]):
    """One exploration of a game."""

    def __init__(self, game: Game[K]) -> None:
        self._game, self._outside = game, Outside(game.claims)
        self._places = game.drivers if game.beside is None else (*game.drivers, game.beside)
        self._moved: tuple[dict[tuple[int, int], list[tuple[int, int]]], ...] = ({}, {}, {})
        self._finished: dict[tuple[int, int], str | None] = {}
        self._sound: set[int] = set()
        self._ends: set[str] = set()

    def run(self, limit: int = 3_000_000) -> Explored:
        """Visit every state that can be reached; stop at the first hole."""
        # Nothing of all this is garbage before the end: to look for some takes a quarter of the time.
        gc.disable()
        try:
            return self._run(limit)
        finally:
            gc.enable()

    def _run(self, limit: int) -> Explored:
        start = (self._outside.begin(self._game.world), 0, 0, NONE if self._game.beside is None else BESIDE)
        came_from: dict[State, State | None] = {start: None}
        queue, transitions = deque([start]), 0
        hole: str | None = None
        while queue and hole is None:
            state = queue.popleft()
            hole = self._hole(state)
            for after in self._successors(state) if hole is None else ():
                transitions += 1
                hole = self._outside.lost(state[0], after[0])
                if hole is not None:
                    came_from[after] = state
                    state = after
                    break
                if after not in came_from:
                    came_from[after] = state
                    queue.append(after)
            if len(came_from) > limit:
                raise AssertionError(f"the bound of {limit} states is too small for this exploration")
        way = self._way(state, came_from) if hole else ()
        return Explored(len(came_from), transitions, hole, way, frozenset(self._ends), frozenset(self._outside.met))

    def _successors(self, state: State) -> Iterator[State]:
        world, a, b, left = state
        for after, then in self._moves(A, world, a):
            yield after, then, b, left
        for after, then in self._moves(B, world, b):
            yield after, a, then, left
        if left != NONE:
            number, place = left % 3, left // 3
            for after, then in self._moves(number, world, place):
                yield after, a, b, 3 * then + number if self._stays(number, place, then) else NONE
        elif self._outside.value(world).failures:
            yield from self._failures(state)
        for after in self._outside.happenings(world):
            yield after, a, b, left

    def _moves(self, number: int, world: int, place: int) -> list[tuple[int, int]]:
        """Worlds and places that a step of a driver may lead to."""
        known = self._moved[number].get((world, place))
        if known is None:
            places, known = self._places[number], []
            step = places.at(place)
            if not isinstance(step, Ended):
                replies = self._outside.replies(world, step)
                known = [(after, places.after(place, reply)) for reply, after in replies]
            self._moved[number][world, place] = known
        return known

    def _stays(self, number: int, place: int, then: int) -> bool:
        """Whether what runs beside the drivers goes on after a step."""
        places = self._places[number]
        same = number == BESIDE or self._game.same_task(places.knowledge(place), places.knowledge(then))
        return same and not places.ended(then)

    def _failures(self, state: State) -> Iterator[State]:
        """A task is repeated, and the attempt before may still be running."""
        world, a, b, _ = state
        fewer = self._outside.failing(world)
        for number, places in enumerate(self._game.drivers):
            place = state[1 + number]
            if places.ended(place):
                continue
            for again, running in self._game.repeats(places.knowledge(place)):
                then, left = places.of(again), 3 * place + number if running else NONE
                yield (fewer, then, b, left) if number == A else (fewer, a, then, left)

    def _hole(self, state: State) -> str | None:
        world, a, b, _ = state
        for number, place in ((A, a), (B, b)):
            if self._game.drivers[number].ended(place):
                refused = self._refused(number, place, world)
                if refused is not None:
                    return refused
        if world in self._sound:
            return None
        wrong = self._outside.wrong[world] or self._unfinished(self._outside.quiet(world))
        if wrong is None:
            self._sound.add(world)
        return wrong

    def _refused(self, number: int, place: int, world: int) -> str | None:
        """Name a driver that still owns head and was refused: the pipeline would stand still."""
        step, name = self._game.drivers[number].at(place), NAMES[number]
        assert isinstance(step, Ended)
        self._ends.add(step.how)
        if step.how.startswith("refused") and self._outside.owners[world] == name and not self._game.excused(step.how):
            return f"driver {name} owns head and was {step.how}"
        return None

    def _unfinished(self, world: int) -> str | None:
        """Start a third driver alone; None when it publishes exactly the input, otherwise what is wrong."""
        place, finisher, passed = 0, self._game.finisher, list[tuple[int, int]]()
        while (world, place) not in self._finished:
            passed.append((world, place))
            step = finisher.at(place)
            if self._outside.wrong[world] is not None:
                self._finished[world, place] = f"in recovery: {self._outside.wrong[world]}"
            elif isinstance(step, Ended):
                self._ends.add(step.how)
                self._finished[world, place] = self._game.ended(self._outside.value(world), step.how)
            else:
                before, (reply, world) = world, self._outside.replies(world, step)[0]
                lost = self._outside.lost(before, world)
                if lost is not None:
                    return f"in recovery: {lost}"
                place = finisher.after(place, reply)
        outcome = self._finished[world, place]
        self._finished.update(dict.fromkeys(passed, outcome))
        return outcome

    def _way(self, state: State, came_from: dict[State, State | None]) -> tuple[str, ...]:
        """Return what led to a state, one line a step."""
        lines: list[str] = []
        while (before := came_from[state]) is not None:
            lines.append(self._describe(before, state))
            state = before
        return tuple(reversed(lines))

    def _describe(self, before: State, after: State) -> str:
        """Tell what happened between two states."""
        for number, name in enumerate(NAMES):
            place, then = before[1 + number], after[1 + number]
            if place != then:
                for line, world, there in self._lines(number, place, before[0]):
                    if (world, there) == (after[0], then):
                        return f"{name}: {line}"
                return f"{name} repeats a task" + (", and leaves an attempt running" if after[3] != NONE else "")
        if before[3] != after[3]:
            lines = self._lines(before[3] % 3, before[3] // 3, before[0])
            return "beside them: " + next(line for line, world, _ in lines if world == after[0])
        return "a delayed request takes place, or something is deleted"

    def _lines(self, number: int, place: int, world: int) -> Iterator[tuple[str, int, int]]:
        """Tell every way in which a process may go on from a place, with the world and the place after it."""
        places = self._places[number]
        step = places.at(place)
        if not isinstance(step, Ended):
            for reply, after in self._outside.replies(world, step):
                yield describe(step, reply), after, places.after(place, reply)
