"""Explorations of what runs beside two drivers and is no driver: retention, compaction."""

from __future__ import annotations

from collections.abc import Callable

from tests.model import checks
from tests.model.at import At, Phase
from tests.model.driver import Driver
from tests.model.explore import Exploration, Explored, Game
from tests.model.outside import Claims, Row
from tests.model.places import Places
from tests.model.rules import Pipeline, Rules
from tests.model.shards import KafkaShard
from tests.model.world import World


def explored_beside(
    pipeline: Pipeline, beside: Callable[[At], Phase], as_read: Callable[[World], World] = lambda world: world
) -> Explored:
    """Explore a pipeline with all rules, and one more who does something at any moment.

    Args:
        pipeline: what is run.
        beside: what that one does.
        as_read: the world as its readers take it.

    """
    a, b, finisher = (
        Places(Driver(name, rows, pipeline, Rules()).phase, At())
        for name, rows in zip("ABF", (*pipeline.rows, pipeline.rows[1]), strict=True)
    )
    expected = tuple({identity for identity, _ in pipeline.input})

    def wrong(world: World, rows: tuple[Row, ...]) -> str | None:
        return checks.wrong(world, rows) or checks.mark_outside(as_read(world))

    def ended(world: World, how: str) -> str | None:
        return checks.incomplete(as_read(world), expected) if how == "done" else f"recovery ended as {how}"

    game = Game(
        world=World(shards=tuple(KafkaShard() if kind == "kafka" else None for kind in pipeline.to)),
        claims=Claims(checks.owner, lambda world: checks.visible(as_read(world)), wrong, checks.changed),
        drivers=(a, b),
        finisher=finisher,
        ended=ended,
        beside=Places(beside, At(phase="start")),
    )
    return Exploration(game).run()
