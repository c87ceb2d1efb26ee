"""Explorations of a repair: one driver is in an epoch of which it may have read a part, others and operators beside."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.model import checks
from tests.model.at import At, Phase
from tests.model.explore import Exploration, Explored, Game
from tests.model.games import shard_of
from tests.model.mended import MendedDriver
from tests.model.outside import Claims, Row
from tests.model.places import Ended, Places
from tests.model.repairer import START, Repairer
from tests.model.rules import Pipeline, Rules
from tests.model.world import World, describe

BROKEN = Rules(r13_whole_input=False)
"""The first driver decides on whatever it read."""
DELAYED = ("decided otherwise in step 'ids'", "brought other rows to recorded step")
"""How a driver may be refused where a put of before arrives after the command looked: it is run again then."""
AGAIN = (*DELAYED, "is published with digest", "its rows are not those of its mark")
"""How whoever owns head may be refused while drivers live: the same."""


@dataclass(frozen=True)
class Repair:
    """What is explored.

    Attributes:
        pipeline: with rows of the epochs of the broken driver, and of those who come after it.
        epoch: the one of which the broken driver may read a part.
        drivers: what all drivers but the broken one are made with; rules that are left out.
        operators: the same of operators.

    """

    pipeline: Pipeline
    epoch: int = 0
    attached: bool = True
    dead_letter: bool = False
    drivers: dict[str, Any] = field(default_factory=dict)
    operators: dict[str, Any] = field(default_factory=dict)

    def broken(self) -> tuple[World, MendedDriver, At]:
        """Return the world and the driver where it has declared its epoch and read nothing of it yet."""
        driver = self._driver("A", BROKEN, early=True)
        places, place = Places(driver.phase, At()), 0
        world = World(shards=tuple(shard_of(kind, Rules()) for kind in self.pipeline.to))
        while (known := places.knowledge(place)).phase != "decide" or known.declaration.epoch != self.epoch:
            step = places.at(place)
            assert not isinstance(step, Ended)
            reply, world = next(world.replies(step))
            place = places.after(place, reply)
        return replace(world, early=1), driver, known

    def living(self, *, second: str, beside: bool, losses: int = 0) -> Explored:
        """Explore: the broken driver lives, a second one starts, maybe after a repair, an operator beside both.

        Args:
            second: what driver B begins with: `start`, or `r_start` for an operator before it.
            beside: whether there is an operator beside both.
            losses: how many answers may get lost.

        """
        world, a, known = self.broken()
        drivers = Places(a.phase, known), Places(self._after("B"), At(phase=second))
        operator = Places(self._operator("O", "done").phase, At(phase=START)) if beside else None
        return self._explored(replace(world, losses=losses), drivers, self._finisher(), AGAIN, operator)

    def stopped(self, losses: int = 0) -> Iterator[Explored]:
        """Explore, for each point where the broken driver may have died: an operator and a driver alone."""
        world, a, known = self.broken()
        dead, after = Places(a.phase, At(phase="done")), Places(self._after("B"), At(phase=START))
        finisher, again = self._finisher(), DELAYED if losses else ()
        for left, way in _deaths(replace(world, losses=losses), Places(a.phase, known)).items():
            found = self._explored(left, (dead, after), finisher, again)
            yield replace(found, way=(*way, *found.way))

    def _explored(
        self,
        world: World,
        drivers: tuple[Places[At], Places[At]],
        finisher: Places[At],
        again: Sequence[str],
        beside: Places[At] | None = None,
    ) -> Explored:
        game = Game(
            world=world,
            claims=Claims(checks.owner, self._visible, self._wrong, checks.changed),
            drivers=drivers,
            finisher=finisher,
            ended=self._ended,
            excused=lambda how: any(each in how for each in again),
            beside=beside,
        )
        return Exploration(game).run()

    def _finisher(self) -> Places[At]:
        """Return whoever comes last, alone: an operator, then a driver."""
        return Places(self._after("F"), At(phase=START))

    def _driver(self, name: str, rules: Rules, *, early: bool, **left_out: Any) -> MendedDriver:
        rows = self.pipeline.rows[name != "A"]
        of = {"attached": self.attached, "dead_letter": self.dead_letter}
        return MendedDriver(name, rows, self.pipeline, rules, early, **of, **left_out)

    def _operator(self, name: str, then: str) -> Repairer:
        return Repairer(name, self.pipeline, self.attached, self.dead_letter, then, **self.operators)

    def _after(self, name: str) -> Callable[[At], Phase]:
        """Return a process that is an operator first, and then a driver."""
        driver, operator = self._driver(name, Rules(), early=False, **self.drivers), self._operator(name, "start")
        return lambda at: operator.phase(at) if at.phase.startswith("r_") else driver.phase(at)

    def _visible(self, world: World) -> tuple[Row, ...]:
        """Every row with its sink."""
        rows = [
            (epoch, f"{number}:{row}")
            for number, shard in enumerate(world.shards)
            if shard is not None
            for epoch, row in shard.rows
        ]
        of_files = replace(world, shards=())
        return (*rows, *((epoch, f"files:{row}") for epoch, row in checks.visible(of_files)))

    def _wrong(self, world: World, rows: tuple[Row, ...]) -> str | None:
        missing = [row for _, row in rows if checks.MISSING in row]
        if missing:
            return "a manifest names a file that is not there"
        doubled = sorted(one for one, number in Counter(row.split("=")[0] for _, row in rows).items() if number > 1)
        if doubled:
            return f"doubled: {doubled}"
        for epoch in {epoch for epoch, _ in rows}:
            values = {row.split("=")[1].split("@")[0] for number, row in rows if number == epoch}
            if len(values) > 1:
                return f"epoch {epoch} shows the values of two attempts: {sorted(values)}"
        return self._repaired_twice(world) or checks.mark_outside(world)

    def _repaired_twice(self, world: World) -> str | None:
        head = checks.head_of(world)
        repairs = Counter(record.repairs for record in head.tail if record.repairs is not None) if head else Counter()
        twice = sorted(epoch for epoch, number in repairs.items() if number > 1)
        return f"repaired twice: {twice}" if twice else None

    def _ended(self, world: World, how: str) -> str | None:
        if how != "done":
            return f"recovery ended as {how}"
        expected = sorted({one for one, _ in self.pipeline.input})
        for number, kind in enumerate(self.pipeline.to):
            dead = self.dead_letter and number == len(self.pipeline.to) - 1
            sink = "files" if kind == "files" else str(number)
            shown = sorted(row.split("=")[0] for _, row in self._visible(world) if row.startswith(f"{sink}:"))
            if shown != [] if dead else shown != [f"{sink}:{one}" for one in expected]:
                return f"after recovery sink {sink} holds {shown}"
        return None


def _deaths(world: World, places: Places[At]) -> dict[World, tuple[str, ...]]:
    """Every world in which a driver that runs alone may have died, with the shortest way to it."""
    ways: dict[tuple[World, int], tuple[str, ...]] = {(world, 0): ()}
    queue = deque(ways)
    while queue:
        before, place = state = queue.popleft()
        step = places.at(place)
        after = [((then, place), "a delayed request takes place") for then in before.happenings()]
        if not isinstance(step, Ended):
            after += [
                ((then, places.after(place, reply)), f"A: {describe(step, reply)}")
                for reply, then in before.replies(step)
            ]
        for new, line in after:
            if new not in ways:
                ways[new] = (*ways[state], line)
                queue.append(new)
    found: dict[World, tuple[str, ...]] = {}
    for (left, _), way in ways.items():
        found.setdefault(left, way)
    return found
