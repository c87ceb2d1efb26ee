"""The leader of one partition of the input that is away: whom it strikes, and what shows that another one led."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.leaders import Leaders, Led
from tests.harness.adapters.server_pods import ServerPods
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.faults import cluster_leader_away
from tests.harness.faults.cluster_leader_away import AwayLeader
from tests.harness.lag_sorts import LEADERS_AWAY
from tests.harness.schedule import DECLARED, PlannedFault
from tests.unit.cluster.fake_platform import server
from tests.unit.cluster.test_cluster_leader_faults import LOG, SINK, SOURCE, FakeLeaders
from tests.unit.cluster.test_cluster_stalls import World
from tests.unit.harness.sleepers import soon

BROKERS = [server(f"kafka-{one}", uid=f"u{one}", cid=f"c{one}") for one in range(3)]


class OfTopic(FakeLeaders):
    """Leaders that know which topic the input is."""

    topic = SOURCE[0]


@pytest.fixture
def leaders() -> OfTopic:
    return OfTopic()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    made.platform.there = [*BROKERS]
    yield made
    made.healing.close(torn_down=True)
    made.container.close()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_leader_away, "LOOK_S", 0.3)
    monkeypatch.setattr(cluster_leader_away, "POLL_S", 0.01)


def away(world: World, leaders: OfTopic, seconds: float = 0.2) -> AwayLeader:
    brokers = ServerPods(cast("Cluster", world.platform), "broker", "app=kafka", "java", 3)
    drivers, led = cast("SupervisedPods", world), cast("Leaders", leaders)
    fault = AwayLeader(drivers, led, brokers, time_out_s=600.0, healing=world.healing)
    fault.prepare(PlannedFault(1, DECLARED, None, 0, LEADERS_AWAY["leader-away"], planned_s=seconds))
    fault.arm()
    return fault


def test_who_leads_the_first_partition_stands_still_whatever_was_announced(world: World, leaders: OfTopic) -> None:
    leaders.lead(SOURCE, 2)
    fault = away(world, leaders)
    ((who, _),) = fault.strike({"event": "step", "shard": 1, "sink": "accepted"})
    assert who == "kafka-2@u2/c2"
    soon("all to stand still", lambda: all(world.container.still))
    leaders.lead(SOURCE, 0)
    fault.endure()
    fault.heal()
    assert not any(world.container.still)
    assert fault.after() == [who]
    assert fault.landed()
    evidence = fault.evidence()
    assert evidence["leaders"] == {"events_uc/0": {"before": 2, "after": 0, "epoch_before": 5, "epoch_after": 6}}
    assert evidence["stopped_s"] >= evidence["planned_s"] == 0.2
    assert world.healing.owed == []


def test_a_broker_that_nobody_followed_as_leader_is_no_hit(world: World, leaders: OfTopic) -> None:
    fault = away(world, leaders)
    fault.strike({})
    leaders.lead(SINK, 2)
    leaders.lead(LOG, 0)
    fault.endure()
    fault.heal()
    assert not fault.landed()
    assert fault.evidence()["leaders"]["events_uc/0"]["after"] == 0


def test_brokers_that_do_not_answer_at_once_are_asked_again(world: World, leaders: OfTopic) -> None:
    fault = away(world, leaders)
    fault.strike({})
    leaders.lead(SOURCE, 1)
    leaders.silent = True
    threading.Timer(0.3, setattr, (leaders, "silent", False)).start()
    fault.endure()
    fault.heal()
    assert fault.landed()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda it: setattr(it, "silent", True), "no broker tells who leads"),
        (lambda it: it.there.pop(SOURCE), "nobody leads events_uc/0"),
        (lambda it: it.there.update({SOURCE: Led(-1, (0, 1), frozenset())}), "nobody leads events_uc/0"),
        (lambda it: it.lead(SOURCE, 7), "nobody leads events_uc/0"),
        (lambda it: it.there.update({SOURCE: Led(3, (3, 1), frozenset({3}))}), "broker 3, which leads events_uc/0, is"),
    ],
)
def test_where_there_is_no_such_leader_it_is_a_miss(change: Any, said: str, world: World, leaders: OfTopic) -> None:
    change(leaders)
    with pytest.raises(NoProcessError, match=said):
        away(world, leaders).strike({})
    assert world.healing.owed == []
    assert not any(world.container.still)
