"""A driver in pods that is away: nobody starts the next one until the time is over, whichever way the run ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.adapters.drivers import NoProcessError, Struck
from tests.harness.adapters.events import Watch
from tests.harness.adapters.supervised_pods import NEXT_S
from tests.harness.faults.cluster_driver_away import AwayDriverPod
from tests.harness.faults.healing import Healing
from tests.harness.history import History
from tests.harness.lag_sorts import IN_PODS
from tests.harness.schedule import DECLARED, PlannedFault
from tests.unit.harness.fake_cluster import RUNS, UIDS, ended
from tests.unit.harness.struck import announce
from tests.unit.harness.test_supervised_pods import NAME, Supervised

SECOND = f"{NAME}@00000001"


class World(Supervised):
    """A driver in a pod, and the fault that has it away."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.driver("a")
        self.healing = Healing(self.said.append)
        self.watch = Watch(folder / "events.jsonl", History(folder / "told.jsonl"))

    def away(self, seconds: float = 0.1) -> AwayDriverPod:
        fault = AwayDriverPod(self.drivers, self.watch, self.healing)
        fault.prepare(PlannedFault(1, DECLARED, None, 0, IN_PODS["driver-away"], planned_s=seconds))
        fault.arm()
        return fault

    @property
    def patches(self) -> list[bool]:
        return [one[2] for one in self.cluster.done if one[0] == "patch"]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.history.close()


def test_the_operator_starts_no_driver_until_the_time_is_over(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = world.away()
    suspended: list[list[bool]] = []
    kill_driver = world.drivers.kill_driver

    def kill(kind: str) -> Struck:
        suspended.append([*world.patches])
        return kill_driver(kind)

    monkeypatch.setattr(world.drivers, "kill_driver", kill)
    ((who, at),) = fault.strike({})
    assert who == f"{NAME}@{UIDS['a']}"
    assert suspended == [[True]], "the operator may start the next one before it is kept from it"
    assert world.healing.owed == ["let drivers be started again"]
    world.driver("a", ended(137))
    fault.endure()
    assert world.patches == [True]
    fault.heal()
    fault.heal()
    assert (world.patches, world.healing.owed) == ([True, False], [])
    assert fault.after() == []
    world.driver("b", RUNS)
    announce(world.watch, event="driver", state="started", pid=SECOND, t=at + 1)
    assert fault.after() == [f"{NAME}@{UIDS['b']}"]
    assert fault.evidence() == {"planned_s": 0.1}


def test_while_it_is_away_nobody_misses_the_next_one_and_afterwards_somebody_does(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000.0]
    monkeypatch.setattr("tests.harness.adapters.supervised_pods.time.monotonic", lambda: now[0])
    fault = world.away(NEXT_S * 3)
    fault.strike({})
    world.driver("a", ended(137))
    assert world.drivers.alive() is None
    now[0] += NEXT_S * 3
    assert world.drivers.alive() is None
    fault.heal()
    assert world.drivers.alive() is None
    now[0] += NEXT_S + 1
    assert "no driver has followed" in (world.drivers.alive() or "")


def test_a_run_that_ends_meanwhile_lets_drivers_be_started(world: World) -> None:
    world.away(60.0).strike({})
    world.healing.close(torn_down=False)
    assert world.patches == [True, False]
    assert world.said[-1] == "✓ healed at the end of the run: let drivers be started again"


def test_where_no_driver_was_killed_nobody_is_kept_away(world: World) -> None:
    fault = world.away()
    world.driver("a", ended(70))
    with pytest.raises(NoProcessError):
        fault.strike({})
    assert (world.patches, world.healing.owed) == ([True, False], [])
