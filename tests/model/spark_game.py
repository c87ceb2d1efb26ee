"""The exploration of a job whose state is Spark's own: two drivers, and a checkpoint that may be deleted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tests.model import checks
from tests.model.at import LAYOUT
from tests.model.explore import Exploration, Explored, Game
from tests.model.outside import Claims, Row
from tests.model.places import Places
from tests.model.shards import KafkaShard
from tests.model.spark_at import BACKUPS, GONE, INPUT, At, Rules, epoch_of
from tests.model.spark_state import Driver
from tests.model.world import World

RULES = Rules()
EXPECTED = tuple(f"{one}={number}" for number, one in enumerate(dict.fromkeys(INPUT), 1))


@dataclass(frozen=True, slots=True)
class DeletedWorld(World):
    """Somebody may delete all checkpoints, at any moment, as often as `failures` says."""

    def happenings(self) -> Iterator[World]:
        """See World."""
        # Without arguments super() does not work in a class with slots.
        yield from World.happenings(self)
        if self.failures:
            yield replace(self.failing, objects=self.without(f"{LAYOUT.pipeline}/checkpoints/").objects)


def explored(
    rules: Rules = RULES,
    losses: int = 0,
    deletions: int = 0,
    early: int = 0,
    *,
    alone: bool = False,
    rows: tuple[int, int] = (1, 2),
    excused: tuple[str, ...] = (),
) -> Explored:
    """Explore it with up to so many lost answers, deletions of the checkpoint and inputs that end early.

    `alone` is without driver B. A takes `rows[0]` records an epoch, B `rows[1]`.

    A driver may be refused when the checkpoint was deleted and the chain keeps no backup's deltas. Alone, every backup
    can be restarted from; otherwise one that a driver made after it was replaced may have come too late for that.
    Where nothing is deleted nobody needs a backup, and none is made. `excused` are texts of refusals that are no hole.
    """

    def places(name: str, rows: int, phase: str = "start") -> Places[At]:
        return Places(Driver(name, rows, rules, deletions > 0, early > 0).phase, At(phase))

    def wrong(_: World, visible: tuple[Row, ...]) -> str | None:
        found = [row for _, row in visible]
        others = [row for row in found if row not in EXPECTED or found.count(row) > 1]
        return f"published: {others}" if others else None

    def ended(world: World, how: str) -> str | None:
        if deletions and GONE in how:
            floor = 0 if alone else _floor(world)
            kept = [key for key, _ in world.objects if key.startswith(BACKUPS) and epoch_of(key) >= floor]
            return f"refused, although there are {kept}" if kept else None
        if how != "done":
            if any(text in how for text in excused):
                return None
            return f"recovery ended as {how}"
        found = sorted(row for _, row in checks.visible(world))
        return None if found == sorted(EXPECTED) else f"after recovery the sink holds {found}"

    game = Game(
        world=DeletedWorld(shards=(KafkaShard(),), losses=losses, failures=deletions, early=early),
        claims=Claims(checks.owner, checks.visible, wrong, checks.changed),
        drivers=(places("A", rows[0]), places("B", rows[1], "done" if alone else "start")),
        finisher=places("F", 2),
        ended=ended,
        excused=lambda how: (deletions > 0 and GONE in how) or any(text in how for text in excused),
    )
    return Exploration(game).run()


def _floor(world: World) -> int:
    head = checks.head_of(world)
    return head.floor if head else 0
