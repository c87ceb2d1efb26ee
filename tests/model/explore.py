"""Every interleaving of two drivers, breadth first, with states met before not entered again."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from effectively_once.ledger import chain
from tests.model.places import Ended, Places
from tests.model.program import INPUT, LAYOUT, Rules, phase
from tests.model.world import World


@dataclass(frozen=True, slots=True)
class Explored:
    """What an exploration came to: sizes, and the first hole found (None: none)."""

    states: int
    transitions: int
    hole: str | None


def explore(rules: Rules, losses: int, limit: int = 5_000_000) -> Explored:
    """Run two drivers, reading two and three rows an epoch, in every order, with up to `losses` lost answers.

    In every state: nothing is doubled, and every shard of an epoch shows the same recorded value. From every state a
    third driver, started alone (the others died there), must publish exactly the input.
    """
    drivers = [Places(partial(phase, "A", 2, rules)), Places(partial(phase, "B", 3, rules))]
    finisher = Places(partial(phase, "F", 3, rules))
    start = (World(losses=losses, conditional=rules.r1_conditional_head), (0, 0))
    seen, queue, transitions = {start}, deque([start]), 0
    finished: dict[World, str | None] = {}
    while queue:
        world, nodes = queue.popleft()
        quiet = World(world.objects, world.shards, world.delayed, 0, world.conditional)
        if quiet not in finished:
            finished[quiet] = _wrong(quiet) or _refused(quiet, drivers, nodes) or _unfinished(quiet, finisher)
        hole = finished[quiet] or _refused(world, drivers, nodes)
        if hole is not None:
            return Explored(len(seen), transitions, hole)
        for after in _successors(world, nodes, drivers):
            transitions += 1
            if after not in seen:
                seen.add(after)
                queue.append(after)
        if len(seen) > limit:
            raise AssertionError(f"the bound of {limit} states is too small for this exploration")
    return Explored(len(seen), transitions, None)


def _successors(
    world: World,
    nodes: tuple[int, int],
    drivers: list[Places],
) -> Iterator[tuple[World, tuple[int, int]]]:
    for number, places in enumerate(drivers):
        step = places.at(nodes[number])
        if isinstance(step, Ended):
            continue
        for reply, after in world.replies(step):
            node = places.after(nodes[number], reply)
            yield after, (node, nodes[1]) if number == 0 else (nodes[0], node)
    for after in world.happenings():
        yield after, nodes


def _wrong(world: World) -> str | None:
    """Name a row doubled, or an epoch shown with two values."""
    rows = [(epoch, row) for shard in world.shards for epoch, row in shard.rows]
    ids = [row.split("=")[0] for _, row in rows]
    doubled = {identity for identity in ids if ids.count(identity) > 1}
    if doubled:
        return f"doubled: {sorted(doubled)}"
    for epoch in {epoch for epoch, _ in rows}:
        values = {row.split("=")[1] for number, row in rows if number == epoch}
        if len(values) > 1:
            return f"epoch {epoch} shows the values of two drivers: {sorted(values)}"
    return None


def _refused(world: World, drivers: list[Places], nodes: tuple[int, int]) -> str | None:
    """Name a driver that still owns head and was refused: the pipeline would stand still."""
    body = world.body(LAYOUT.head)
    owner = chain.decoded(body, LAYOUT.head).owner if body else None
    for name, places, node in zip("AB", drivers, nodes, strict=True):
        step = places.at(node)
        if isinstance(step, Ended) and step.how.startswith("refused") and owner == name:
            return f"driver {name} owns head and was {step.how}"
    return None


def _unfinished(world: World, finisher: Places) -> str | None:
    """Start a third driver alone; None when it publishes exactly the input, otherwise what is wrong."""
    node = 0
    while not isinstance(step := finisher.at(node), Ended):
        reply, world = next(world.replies(step))
        node = finisher.after(node, reply)
    if step.how != "done":
        return f"recovery ended as {step.how}"
    rows = sorted(row.split("=")[0] for shard in world.shards for _, row in shard.rows)
    if rows != sorted(set(INPUT)):
        return f"after recovery the sink holds {rows}"
    return _wrong(world)
