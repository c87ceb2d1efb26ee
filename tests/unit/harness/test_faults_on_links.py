"""Cuts of the embedded stack: on a real link, before a server that is there all the time."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from infra.embedded.process import identity
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.tcp_link import TcpLink
from tests.harness.checkers import faults as checked_faults
from tests.harness.cut_links import cut_links
from tests.harness.cut_sorts import (
    AFTER_S,
    BETWEEN,
    CLUSTER_CUTS,
    CUT,
    DIRECTIONS,
    EMBEDDED_CUTS,
    LENGTHS_S,
    TO_BROKER,
    TO_RESULTS,
    TO_STORE,
    DrawnCut,
    draw_cuts,
    steps_of_cut,
)
from tests.harness.faults.cut import CutLink
from tests.harness.faults.healing import Healing
from tests.harness.mixture import EMBEDDED, TABLE, NoFaultError, asked_for, plan, without_result_store
from tests.harness.schedule import DECLARED, STEPS
from tests.unit.harness.sleepers import Server, soon

DECLARATION = {"t": 1, "event": "epoch", "state": "declared", "epoch": 3, "driver": 9}
STEP = {"t": 1, "event": "step", "step": "committed", "epoch": 3, "shard": 0, "pid": 7}


class World:
    """A server that sleeps, a link to a socket that says nothing, and what faults need."""

    def __init__(self, folder: Path) -> None:
        self.server = Server(folder)
        self.server.restart()
        self.behind = socket.create_server(("127.0.0.1", 0))
        self.link = TcpLink("test")
        self.link.start()
        self.link.target = self.behind.getsockname()
        self.said: list[str] = []
        self.healing, self.ended = Healing(self.said.append), threading.Event()

    def fault(self, direction: str = "both", planned_s: float = 0.2, after_s: float = 0.0) -> CutLink:
        drawn = DrawnCut(planned_s, direction, after_s)
        return CutLink(TO_STORE, self.link, self.server, drawn, healing=self.healing, ended=self.ended)

    def say(self) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.link.port), 5.0)
        client.sendall(b"hello")
        return client

    def close(self) -> None:
        self.healing.close(torn_down=True)
        self.link.stop()
        self.behind.close()
        assert self.server.child is not None
        self.server.child.kill()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def test_a_cut_lasts_as_long_as_planned_and_tells_what_it_held_back(world: World) -> None:
    fault, who = world.fault(), identity(world.server.pid)
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
    assert told == {
        "planned_s": 0.2, "direction": "both", "between": ["pipeline", "object store"], "dropped": {"connections": 1},
    }  # fmt: skip
    assert fault.after() == [who], "the server itself is as it was"
    event = {
        "t": at + 1, "event": "fault", "kind": CUT, "target": TO_STORE.target, "injected_at": at, "epoch": 3,
        "healed_at": at + 10_000, "process_before": who, "process_after": who, "hit": True, **fault.evidence(),
    }  # fmt: skip
    epoch = {"event": "epoch", "epoch": 3, "driver": 9}
    history = [{**epoch, "t": at - 1, "state": "declared"}, {**epoch, "t": at + 20_000, "state": "published"}, event]
    (judged,) = checked_faults.check(history)
    assert judged.fault.hit, judged.refuted
    late = [history[0], {**history[1], "t": at - 1}, event]
    assert "was not running then" in (checked_faults.check(late)[0].refuted or "")


def test_a_cut_during_which_nobody_said_anything_has_not_landed(world: World) -> None:
    with world.say(), world.behind.accept()[0] as accepted:
        assert accepted.recv(5) == b"hello"
        fault = world.fault()
        fault.strike(STEP)
        fault.endure()
        fault.heal()
    assert fault.evidence()["dropped"] == {}
    assert not fault.landed()


def test_what_an_earlier_cut_held_back_is_not_told_of_the_next(world: World) -> None:
    first = world.fault()
    first.strike(STEP)
    with world.say():
        soon("it to be held back", first.landed)
        first.heal()
    assert not world.fault().landed()


def test_a_cut_at_a_declaration_waits_for_the_delay_that_was_drawn_and_at_a_step_it_does_not(world: World) -> None:
    began = time.monotonic()
    world.fault(after_s=30.0).strike(STEP)
    assert time.monotonic() - began < 5
    began = time.monotonic()
    world.fault(after_s=0.3).strike(DECLARATION)
    assert time.monotonic() - began >= 0.3


def test_a_cut_is_undone_when_the_run_ends(world: World) -> None:
    fault = world.fault(planned_s=600.0)
    fault.strike(STEP)
    world.ended.set()
    fault.endure()
    world.healing.close(torn_down=True)
    assert world.said == ["✓ healed at the end of the run: let packets pass again between pipeline and object store"]
    with world.say(), world.behind.accept()[0] as accepted:
        assert accepted.recv(5) == b"hello"


def test_a_run_that_ends_before_a_cut_is_not_cut(world: World) -> None:
    world.ended.set()
    with pytest.raises(NoProcessError, match="the run ends"):
        world.fault(after_s=30.0).strike(DECLARATION)
    assert world.healing.owed == []


def test_a_server_that_is_down_is_missed(world: World) -> None:
    assert world.server.child is not None
    world.server.child.kill()
    with pytest.raises(NoProcessError):
        world.fault().strike(STEP)
    assert world.healing.owed == []


def test_a_cut_that_cannot_be_made_is_undone_at_once(world: World) -> None:
    with pytest.raises(ValueError, match="sideways"):
        world.fault("sideways").strike(STEP)
    assert world.healing.owed == []


def test_every_length_comes_before_one_comes_twice_and_a_seed_draws_the_same() -> None:
    orders = []
    for seed in (1, 1, 2, 3, 4):
        drawn = list(islice(draw_cuts(seed), 40))
        assert sorted(one.planned_s for one in drawn[:4]) == sorted(LENGTHS_S)
        assert {one.direction for one in drawn} == set(DIRECTIONS)
        assert all(0.0 <= one.after_s <= AFTER_S for one in drawn)
        orders.append(tuple(drawn))
    assert orders[0] == orders[1]
    assert len(set(orders)) == 4
    assert {one.planned_s for one in islice(draw_cuts(1, 5.0), 9)} == {5.0}


def test_cuts_means_every_cut_of_a_stack() -> None:
    assert asked_for("cuts", 7) == tuple(EMBEDDED_CUTS.values())
    assert Counter(asked_for("cuts*2,zombie", 7)) == Counter(
        {**dict.fromkeys(EMBEDDED_CUTS.values(), 2), EMBEDDED["zombie"]: 1}
    )
    assert set(asked_for("cuts", 7, {**CLUSTER_CUTS})) == set(CLUSTER_CUTS.values())
    for word, sorts in (("cuts*0", EMBEDDED), ("cuts", {"zombie": EMBEDDED["zombie"]}), ("cut", EMBEDDED)):
        with pytest.raises(NoFaultError, match="there is no fault"):
            asked_for(word, 7, sorts)


def test_without_a_result_store_no_cut_from_it_is_planned() -> None:
    left = without_result_store(asked_for("cuts", 1), "cuts")
    assert set(EMBEDDED_CUTS.values()) - set(left) == {TO_RESULTS.strike}
    with pytest.raises(NoFaultError, match="no result store"):
        without_result_store(asked_for("database-cut", 1), "database-cut")


def test_a_cut_comes_at_a_declaration_or_at_a_step_of_its_own_and_of_the_result_store_at_the_open_transaction() -> None:
    for seed in range(50):
        for one in plan(seed, asked_for("cuts", seed), 2, table=TABLE):
            between = BETWEEN[one.strike.target]
            if between == TO_RESULTS:
                assert (one.step, one.sink) == TABLE[0]
            else:
                assert (one.step, one.sink) in ((DECLARED, None), *between.steps)
    assert steps_of_cut(TO_RESULTS.strike, STEPS, ()) == ((DECLARED, None),)
    assert steps_of_cut(TO_STORE.strike, STEPS[:2], ()) == ((DECLARED, None), STEPS[1])


def test_without_a_cut_nothing_stands_between_a_pipeline_and_its_servers() -> None:
    given = ("127.0.0.1:1", 0, "http://127.0.0.1:2", "postgresql://127.0.0.1:3/results")
    with cut_links(asked_for("zombie,broker-kill", 1)) as cuts:
        assert (cuts.links, cuts.broker_port) == ({}, None)
        assert cuts.between(*given) == (given[0], given[2], given[3])
        assert cuts.between(*given[:3], None) == (given[0], given[2], "")


def test_what_is_cut_is_reached_by_its_link_alone() -> None:
    given = ("127.0.0.1:1", 4, "http://127.0.0.1:2", "postgresql://127.0.0.1:3/results")
    with cut_links(asked_for("cuts*2", 1)) as cuts:
        ports = {target: link.port for target, link in cuts.links.items()}
        assert set(ports) == {TO_BROKER.target, TO_STORE.target, TO_RESULTS.target}
        assert cuts.broker_port == ports[TO_BROKER.target]
        assert cuts.between(*given) == (
            f"127.0.0.1:{ports[TO_BROKER.target]}", f"http://127.0.0.1:{ports[TO_STORE.target]}",
            f"postgresql://127.0.0.1:{ports[TO_RESULTS.target]}/results",
        )  # fmt: skip
        behind = {target: link.target for target, link in cuts.links.items()}
        assert behind == {
            TO_BROKER.target: ("127.0.0.1", 4), TO_STORE.target: ("127.0.0.1", 2), TO_RESULTS.target: ("127.0.0.1", 3),
        }  # fmt: skip
    port = ports[TO_STORE.target]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 1.0)
    with cut_links(asked_for("store-cut", 1)) as alone:
        assert alone.broker_port is None
        assert alone.between(*given)[::2] == (given[0], given[3])
