"""Gateways of a workload say how far they are: never ahead of what was sent, and nothing while they are away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from effectively_once.sources.statement import Statement
from tests.harness.spread import PARTITIONS
from tests.harness.subject import unpaced
from tests.harness.workload.gateways import GATEWAYS, Gateways, gateway_of
from tests.harness.workload.held_back import HeldBack
from tests.harness.workload.progress import Progress
from tests.harness.workload.record import Planned, partition_of, well_formed
from tests.harness.workload.sender import Target
from tests.unit.workload.test_sender import UNPACED, Broker, Run

NORTH, SOUTH = GATEWAYS


@dataclass
class World:
    """Gateways whose statements are kept, of a stream that is out of order by 100 ms."""

    held: HeldBack = field(default_factory=HeldBack)
    published: list[Statement] = field(default_factory=list)
    lines: list[dict[str, Any]] = field(default_factory=list)
    answers: list[Callable[[], object]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.gateways = Gateways(100_000, self.held.holds, self.publish, self)

    def publish(self, said: Statement, delivered: Callable[[], object]) -> None:
        self.published.append(said)
        self.answers.append(delivered)

    def write(self, line: dict[str, Any]) -> None:
        self.lines.append(line)

    def said(self) -> dict[str, int]:
        self.published.clear()
        self.gateways.state()
        return {one.source: one.time_ms for one in self.published}


def of(time_ms: int, n: int = 0, **more: Any) -> Planned:
    return well_formed(n, f"id-{n}", "u", time_ms, "x", **more)


def test_a_gateway_vouches_for_what_is_before_its_clock_and_no_record_is_behind() -> None:
    world = World()
    assert world.said() == {}
    world.gateways.take(one := of(1_000_000), NORTH)
    assert world.said() == {NORTH: 900_000, SOUTH: 900_000}
    world.gateways.take(of(1_200_000), SOUTH)
    assert world.said() == {NORTH: 1_000_000, SOUTH: 1_100_000}
    world.gateways.acknowledge(one, NORTH, 3, 7)
    assert world.said() == {NORTH: 1_100_000, SOUTH: 1_100_000}
    assert world.published[0].offsets == {"3": 8}
    assert [line["time_ms"] for line in world.lines if line["source"] == NORTH] == [900_000, 1_000_000, 1_100_000]
    world.gateways.all_taken()
    assert world.said() == {NORTH: 1_200_000, SOUTH: 1_200_000}


def test_a_line_tells_when_the_broker_had_a_word_and_none_where_it_has_not() -> None:
    world = World()
    world.gateways.take(of(1_000_000), NORTH)
    world.said()
    assert not any("delivered_at" in line for line in world.lines)
    world.answers[1]()
    assert {**world.lines[-1], "delivered_at": 0} == {"delivered_at": 0, "source": SOUTH, "time_ms": 900_000}
    assert world.lines[-1]["delivered_at"] >= world.lines[1]["said_at"]


def test_one_that_is_away_says_nothing_and_afterwards_what_it_holds_holds_its_word() -> None:
    world = World()
    world.gateways.take(of(1_000_000), SOUTH)
    world.held.hold(NORTH)
    world.gateways.take(kept := of(1_050_000), NORTH)
    world.gateways.take(of(2_000_000), SOUTH)
    assert world.said() == {SOUTH: 1_000_000}
    world.held.let_go(NORTH)
    assert world.said() == {NORTH: 1_050_000}
    world.gateways.acknowledge(kept, NORTH, 0, 0)
    assert world.said()[NORTH] == 1_900_000


def test_late_records_are_vouched_for_by_nobody() -> None:
    world = World()
    world.gateways.take(of(1_000_000), NORTH)
    world.said()
    world.gateways.take(of(1_000, kind="late"), NORTH)
    assert world.gateways.behind == 0
    world.gateways.take(of(1_000), NORTH)
    assert world.gateways.behind == 1


def test_both_gateways_have_records_in_every_partition_and_none_is_behind_their_word() -> None:
    world, seen = World(), set()
    world.gateways = Gateways(unpaced(3, 20_000, 250).disorder_ms, world.held.holds, world.publish, world)
    for number, record in enumerate(unpaced(3, 20_000, 250, 100).records()):
        gateway = gateway_of(record, PARTITIONS)
        seen.add((gateway, partition_of(record, PARTITIONS)))
        world.gateways.take(record, gateway)
        world.gateways.acknowledge(record, gateway, 0, number)
        if number % 50 == 0:
            world.gateways.state()
    assert len(seen) == 2 * PARTITIONS
    assert world.gateways.behind == 0


def test_a_sender_tells_who_had_a_record_and_keeps_those_of_a_gateway_that_is_away() -> None:
    world = World()
    run = Run(Broker(), Progress, pace=UNPACED, target=Target(deadline_s=0.5))
    lines = run.lines
    world.held.hold(SOUTH)

    def records() -> Any:
        yield from (well_formed(n, f"id-{n}", f"u{n}", 1_000_000 + n, "x") for n in range(40))
        assert world.held.kept(SOUTH) == 40 - len(lines) > 0
        assert {line["gateway"] for line in lines} == {NORTH}
        assert SOUTH not in world.said()
        world.held.let_go(SOUTH)

    assert run.sender(gateways=world.gateways).send_unpaced(records(), 100_000.0, world.held)
    assert len(lines) == 40
    assert world.said() == {NORTH: 1_000_039, SOUTH: 1_000_039}
