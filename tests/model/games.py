"""The explorations: a pipeline, with all rules or without one, two drivers and a third."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.model import checks
from tests.model.at import At, Phase
from tests.model.driver import TASK, Driver
from tests.model.explore import Exploration, Explored, Game
from tests.model.operator import START, Operator
from tests.model.outside import Claims, Row
from tests.model.places import Places
from tests.model.rules import Pipeline, Rules
from tests.model.shards import KafkaShard, Shard, TableShard
from tests.model.world import World

RULES = Rules()


def explored(
    pipeline: Pipeline,
    rules: Rules = RULES,
    losses: int = 0,
    failures: int = 0,
    early: int = 0,
    *,
    forgets: int = 0,
    beside: Operator | None = None,
    before: Operator | None = None,
    excused: Callable[[str], bool] = lambda _: False,
    driver: Callable[..., Driver] = Driver,
    marks: Callable[[World], str | None] = checks.mark_outside,
) -> Explored:
    """Explore a pipeline with up to so many lost answers, failed tasks and inputs that end early in the whole run.

    Args:
        pipeline: what is run.
        rules: those that hold.
        losses: how many answers may get lost.
        failures: how many tasks may fail.
        early: how many inputs may end early.
        forgets: how many commits a broker may finish and leave open.
        beside: an operator who abandons an epoch at any moment, while drivers live.
        before: one who does so where both drivers died, before the third is started.
        excused: whether a driver may end so, though it owns head.
        driver: makes one.
        marks: names a mark that the next start would refuse.

    """
    a, b, third = (
        driver(name, rows, pipeline, rules, early > 0, forgets > 0).phase
        for name, rows in zip("ABF", (*pipeline.rows, pipeline.rows[1]), strict=True)
    )

    def last(at: At) -> Phase:
        return before.phase(at) if before is not None and at.phase.startswith("o_") else third(at)

    accepted = tuple({identity for identity, _ in pipeline.input})

    def wrong(world: World, rows: tuple[Row, ...]) -> str | None:
        return checks.wrong(world, rows) or (marks(world) if rules.r10_marks_within else None)

    def ended(world: World, how: str) -> str | None:
        if how == "done":
            results = [one.upper() for one in (checks.closed(world, pipeline) if pipeline.long else accepted)]
            return checks.incomplete(world, (*accepted, *(results if pipeline.results else [])))
        return None if excused(how) else f"recovery ended as {how}"

    game = Game(
        world=World(
            shards=tuple(shard_of(kind, rules) for kind in pipeline.to),
            losses=losses,
            failures=failures,
            early=early,
            forgets=forgets,
        ),
        claims=Claims(checks.owner, checks.visible, wrong, checks.changed),
        drivers=(Places(a, At()), Places(b, At())),
        finisher=Places(last, At(phase=START) if before else At()),
        ended=ended,
        excused=excused,
        repeats=_repeats,
        same_task=_same_task,
        beside=Places(beside.phase, At(phase=START)) if beside else None,
    )
    return Exploration(game).run()


def shard_of(kind: str, rules: Rules) -> Shard | None:
    """Return a shard of a kind; None of files."""
    match kind:
        case "kafka":
            return KafkaShard()
        case "table":
            return TableShard(
                by_epoch=rules.r8_row_by_epoch,
                by_generation=rules.r8_row_by_generation,
                raised_on_open=rules.r8_row_raised_on_open,
            )
    return None


def _repeats(at: At) -> Iterator[tuple[At, bool]]:
    """What a driver knows when it repeats a task, and whether the attempt before is left running.

    The task that runs is repeated by another worker, which has no producer; its worker may have been taken for dead.
    The one before it is repeated by the same worker, when the driver did not hear that it is done. The task that
    publishes to the first shard also decides, and so does the one of the second step.
    """
    if at.phase in TASK:
        again = replace(at.keeping(None), attempt=at.attempt + 1)
        if not at.shard:
            again = replace(again, phase="decide", new=(), delta="", value="")
        elif at.partials is not None:
            again = replace(again, phase="aggregate", partials=None, counted="")
        yield again, True
    if at.phase in ("publish", "aggregate", "show", "finish") and at.shard:
        before, partials = at.shard - 1, at.partials if at.phase in ("show", "finish") else None
        files = tuple(file for file in at.staged if file[0] < before)
        again = replace(at, phase="publish", shard=before, attempt=at.attempt + 1, staged=files, partials=partials)
        yield again, False


def _same_task(before: At, after: At) -> bool:
    return (
        after.phase in TASK
        and after.shard == before.shard
        and after.attempt == before.attempt
        and after.epoch == before.epoch
    )
