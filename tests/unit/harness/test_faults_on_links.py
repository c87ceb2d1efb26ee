"""Cuts of the embedded stack: on a real link, before a server that is there all the time."""

from __future__ import annotations

import socket
from collections import Counter
from pathlib import Path

import pytest

from infra.embedded.process import identity
from tests.harness.adapters.tcp_link import TcpLink
from tests.harness.checkers import faults as checked_faults
from tests.harness.cut_sorts import (
    BETWEEN,
    CLUSTER_CUTS,
    CUT,
    EMBEDDED_CUTS,
    TO_BROKER,
    TO_RESULTS,
    TO_STORE,
    DrawnCut,
    steps_of_cut,
)
from tests.harness.faults.cut import CutLink
from tests.harness.lengths import READING_S
from tests.harness.mixture import EMBEDDED, TABLE, NoFaultError, parse_faults, plan, without_result_store
from tests.harness.play.cut_links import cut_links
from tests.harness.schedule import DECLARED, STEPS, PlannedFault
from tests.unit.harness.sleepers import soon
from tests.unit.harness.struck import World, lend
from tests.unit.harness.witnessed import witnessed

STEP = {"t": 1, "event": "step", "step": "committed", "epoch": 3, "shard": 0, "pid": 7}


class Links(World):
    """A server that sleeps, and a link to a socket that says nothing."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.store = self.server()
        self.behind = socket.create_server(("127.0.0.1", 0))
        self.link = TcpLink("test")
        self.link.start()
        self.link.target = self.behind.getsockname()

    def fault(self, direction: str = "both", planned_s: float = 0.2) -> CutLink:
        drawn = DrawnCut(direction)
        made = CutLink(TO_STORE, self.link, self.store, drawn, healing=self.healing)
        made.prepare(PlannedFault(1, DECLARED, None, 0, TO_STORE.strike, planned_s=planned_s))
        return made

    def say(self) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.link.port), 5.0)
        client.sendall(b"hello")
        return client

    def close(self) -> None:
        super().close()
        self.link.stop()
        self.behind.close()


world = lend(Links)


def test_a_cut_lasts_as_long_as_planned_and_tells_what_it_held_back(world: Links) -> None:
    fault, who = world.fault(), identity(world.store.pid)
    ((struck, at),) = fault.strike(STEP)
    assert struck == who
    assert world.healing.owed == ["let packets pass again between pipeline and object store"]
    with world.say():
        fault.endure()
        fault.heal()
        fault.heal()
        assert world.healing.owed == []
        told = fault.evidence()
    assert fault.landed()
    assert 0.2 <= told.pop("cut_s") < 5
    between = ["pipeline", "object store"]
    assert told == {"planned_s": 0.2, "direction": "both", "between": between, "dropped": {"connections": 1}}
    assert fault.after() == [who], "the server itself is as it was"
    times = {"t": at + 10_001, "injected_at": at, "healed_at": at + 10_000}
    struck_at = {"epoch": 3, "phase": DECLARED, "process_before": who, "process_after": who, "hit": True}
    event = {"event": "fault", "kind": CUT, "target": TO_STORE.target, **times, **struck_at, **fault.evidence()}
    epoch = {"event": "epoch", "epoch": 3, "driver": 9}
    published = {**epoch, "t": at + 20_000, "state": "published", "ms": {"total": 20_001}}
    after = [
        {**epoch, "epoch": 4, "t": at + 20_001, "state": "declared"},
        {**published, "epoch": 4, "t": at + 20_101, "ms": {"total": 100}},
    ]
    history = [{**epoch, "t": at - 1, "state": "declared"}, published, event, *after]
    (judged,) = checked_faults.check(witnessed(history))
    assert judged.fault.hit, judged.refuted
    late = [history[0], {**published, "t": at - 1, "ms": {"total": 0}}, event, *after]
    assert "was not running then" in (checked_faults.check(witnessed(late))[0].refuted or "")


def test_a_cut_during_which_nobody_said_anything_has_not_landed(world: Links) -> None:
    with world.say(), world.behind.accept()[0] as accepted:
        assert accepted.recv(5) == b"hello"
        fault = world.fault()
        fault.strike(STEP)
        fault.endure()
        fault.heal()
    assert fault.evidence()["dropped"] == {}
    assert not fault.landed()


def test_what_an_earlier_cut_held_back_is_not_told_of_the_next(world: Links) -> None:
    first = world.fault()
    first.strike(STEP)
    with world.say():
        soon("it to be held back", first.landed)
        first.heal()
    assert not world.fault().landed()


def test_a_cut_is_undone_when_the_run_ends(world: Links) -> None:
    fault = world.fault(planned_s=600.0)
    fault.strike(STEP)
    world.ended.set()
    fault.endure()
    world.healing.close(torn_down=True)
    assert world.said == ["✓ healed at the end of the run: let packets pass again between pipeline and object store"]
    with world.say(), world.behind.accept()[0] as accepted:
        assert accepted.recv(5) == b"hello"


def test_a_cut_that_cannot_be_made_is_undone_at_once(world: Links) -> None:
    with pytest.raises(ValueError, match="sideways"):
        world.fault("sideways").strike(STEP)
    assert world.healing.owed == []


def test_a_cut_at_a_declaration_has_a_delay_and_at_a_step_it_has_none() -> None:
    planned = [one for seed in range(50) for one in plan(seed, parse_faults("broker-cut,store-cut", seed), 2)]
    delays = [one.after_s for one in planned if one.step == DECLARED]
    assert len(set(delays)) > 20
    assert 0.0 <= min(delays) < max(delays) <= READING_S
    assert {one.after_s for one in planned if one.step != DECLARED} == {0.0}


def test_cuts_means_every_cut_of_a_stack() -> None:
    assert parse_faults("cuts", 7) == tuple(EMBEDDED_CUTS.values())
    assert Counter(parse_faults("cuts*2,zombie", 7)) == Counter(
        {**dict.fromkeys(EMBEDDED_CUTS.values(), 2), EMBEDDED["zombie"]: 1}
    )
    assert set(parse_faults("cuts", 7, {**CLUSTER_CUTS})) == set(CLUSTER_CUTS.values())
    for word, sorts in (("cuts*0", EMBEDDED), ("cuts", {"zombie": EMBEDDED["zombie"]}), ("cut", EMBEDDED)):
        with pytest.raises(NoFaultError, match="there is no fault"):
            parse_faults(word, 7, sorts)


def test_without_a_result_store_no_cut_from_it_is_planned() -> None:
    left = without_result_store(parse_faults("cuts", 1), "cuts")
    assert set(EMBEDDED_CUTS.values()) - set(left) == {TO_RESULTS.strike}
    with pytest.raises(NoFaultError, match="no result store"):
        without_result_store(parse_faults("database-cut", 1), "database-cut")


def test_a_cut_comes_at_a_declaration_or_at_a_step_of_its_own_and_of_the_result_store_at_the_open_transaction() -> None:
    for seed in range(50):
        for one in plan(seed, parse_faults("cuts", seed), 2, table=TABLE):
            between = BETWEEN[one.strike.target]
            if between == TO_RESULTS:
                assert (one.step, one.sink) == TABLE[0]
            else:
                assert (one.step, one.sink) in ((DECLARED, None), *between.steps)
    assert steps_of_cut(TO_RESULTS.strike, STEPS, ()) == ((DECLARED, None),)
    assert steps_of_cut(TO_STORE.strike, STEPS[:2], ()) == ((DECLARED, None), STEPS[1])


def test_without_a_cut_nothing_stands_between_a_pipeline_and_its_servers() -> None:
    given = ("127.0.0.1:1", 0, "http://127.0.0.1:2", "postgresql://127.0.0.1:3/results")
    with cut_links(parse_faults("zombie,broker-kill", 1)) as cuts:
        assert (cuts.links, cuts.broker_port) == ({}, None)
        assert cuts.between(*given) == (given[0], given[2], given[3])
        assert cuts.between(*given[:3], None) == (given[0], given[2], "")


def test_what_is_cut_is_reached_by_its_link_alone() -> None:
    given = ("127.0.0.1:1", 4, "http://127.0.0.1:2", "postgresql://127.0.0.1:3/results")
    with cut_links(parse_faults("cuts*2", 1)) as cuts:
        ports = {target: link.port for target, link in cuts.links.items()}
        assert set(ports) == {TO_BROKER.target, TO_STORE.target, TO_RESULTS.target}
        assert cuts.broker_port == ports[TO_BROKER.target]
        assert cuts.between(*given) == (
            f"127.0.0.1:{ports[TO_BROKER.target]}",
            f"http://127.0.0.1:{ports[TO_STORE.target]}",
            f"postgresql://127.0.0.1:{ports[TO_RESULTS.target]}/results",
        )
        behind = {target: link.target for target, link in cuts.links.items()}
        assert behind == {
            TO_BROKER.target: ("127.0.0.1", 4),
            TO_STORE.target: ("127.0.0.1", 2),
            TO_RESULTS.target: ("127.0.0.1", 3),
        }
    port = ports[TO_STORE.target]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 1.0)
    with cut_links(parse_faults("store-cut", 1)) as alone:
        assert alone.broker_port is None
        assert alone.between(*given)[::2] == (given[0], given[3])
