"""Who starts the next driver: a killed one is followed; one that is to end, or never comes up, is not."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from effectively_once.errors import SinkError
from infra.embedded.process import identity
from tests.harness.adapters import supervised
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.supervised import GIVE_UP, SupervisedDrivers
from tests.harness.history import History, read_history
from tests.harness.play.way_out import NoWayOutError
from tests.harness.refusals import ENOUGH
from tests.unit.harness.sleepers import WITH_CHILD, Home, soon, state_of


class Supervised:
    """Drivers that are sleepers."""

    def __init__(self, folder: Path, *codes: str) -> None:
        self.folder, self.home = folder, Home(folder, list(codes) or [WITH_CHILD])
        self.said: list[str] = []
        self.history = History(folder / "history.jsonl")
        self.drivers = SupervisedDrivers(
            self.home,  # type: ignore[arg-type]
            "m",
            folder / "events.jsonl",
            history=self.history,
            say=self.said.append,
        )

    def start(self) -> int:
        self.drivers.start("driver", self.folder / "settings.json")
        return self.up()

    def up(self) -> int:
        """Wait for the driver there is now to be up, with its child; its pid."""
        pid = self.drivers.driver
        assert pid is not None
        soon("the driver's child", lambda: psutil.Process(pid).children())
        return pid

    def followed(self, former: int) -> int:
        soon("the next driver", lambda: self.drivers.driver != former)
        return self.up()

    def start_in_vain(self) -> str:
        """Start drivers that do not stay; what is said once nobody tries any more."""
        self.drivers.start("driver", self.folder / "settings.json")
        soon("the end of trying", lambda: self.drivers.alive() is not None)
        return self.drivers.alive() or ""

    def read_states(self) -> list[tuple[str, int]]:
        return [(event["state"], event["pid"]) for event in read_history(self.history.path)]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Callable[..., Supervised]]:
    """Return what makes drivers of these codes, which are ended afterwards."""
    made: list[Supervised] = []

    def of(*codes: str) -> Supervised:
        made.append(Supervised(tmp_path, *codes))
        return made[-1]

    yield of
    for one in made:
        one.drivers.end()
        one.history.close()


@pytest.fixture
def world(running: Callable[..., Supervised]) -> Supervised:
    return running()


def test_a_killed_driver_is_followed_and_that_is_no_news(world: Supervised) -> None:
    first = world.start()
    (below,) = psutil.Process(first).children()
    who, _ = world.drivers.kill_driver()
    second = world.followed(first)
    assert who.startswith(f"{first}@")
    assert identity(second) is not None
    assert world.drivers.alive() is None
    assert not below.is_running() or below.status() == psutil.STATUS_ZOMBIE
    assert world.read_states() == [("killed", first)]
    assert world.said == []


def test_executors_of_a_killed_driver_are_left_alone_until_the_end(
    world: Supervised, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = world.start()
    (executor,) = psutil.Process(first).children()
    monkeypatch.setattr(supervised, "executors", lambda _: [executor])
    world.drivers.kill_driver()
    world.followed(first)
    assert executor.is_running()
    world.drivers.end()
    assert not executor.is_running() or executor.status() == psutil.STATUS_ZOMBIE


def test_a_driver_that_ends_by_itself_is_followed_and_told_of(world: Supervised) -> None:
    first = world.start()
    os.kill(first, signal.SIGTERM)
    world.followed(first)
    assert world.read_states() == [("ended", first)]
    assert "not struck (exit code -15)" in world.said[0]


def test_a_driver_that_does_not_come_up_is_given_up_with_its_last_words(running: Callable[..., Supervised]) -> None:
    world = running("print('SettingsError: no'); raise SystemExit(1)")
    words = world.start_in_vain()
    assert words.startswith(f"{GIVE_UP} drivers ended")
    assert "SettingsError: no" in words
    assert len(world.home.started) == GIVE_UP


SAYS = f"{SinkError.__name__}: a repeat of epoch 2 decided otherwise"
REFUSED = f"print({SAYS!r}); raise SystemExit(76)"


def test_drivers_that_a_sink_refuses_are_given_up_before_others(running: Callable[..., Supervised]) -> None:
    """Also under what is done to all of them; one that was struck tells nothing."""
    world = running(WITH_CHILD, REFUSED)
    world.drivers.under = "a stall of the broker"
    world.start()
    world.drivers.kill_driver()
    soon("the end of trying", lambda: world.drivers.alive() is not None)
    assert f"{ENOUGH} drivers ended as a sink refused their rows; {SAYS}" == world.drivers.alive()
    assert len(world.home.started) == 1 + ENOUGH < GIVE_UP


@pytest.fixture
def refused(running: Callable[..., Supervised]) -> Supervised:
    """Return drivers that a sink refuses, not yet started."""
    return running(REFUSED)


def test_once_drivers_were_refused_the_way_out_is_taken_and_the_next_one_starts(refused: Supervised) -> None:
    def repaired() -> str:
        refused.home.codes[:] = [WITH_CHILD]
        return "the next driver finishes epoch 2"

    refused.drivers.way_out = repaired
    refused.drivers.start("driver", refused.folder / "settings.json")
    soon("the driver after it", lambda: len(refused.home.started) > ENOUGH)
    refused.up()
    assert refused.drivers.alive() is None
    assert not refused.drivers.refused
    assert [state for state, _ in refused.read_states()] == ["ended"] * ENOUGH + ["repaired"]
    assert refused.said[-1] == "… repaired: the next driver finishes epoch 2"


def test_drivers_that_are_refused_after_it_are_given_up(refused: Supervised) -> None:
    refused.drivers.way_out = lambda: ""
    assert refused.start_in_vain()
    assert refused.drivers.refused
    assert len(refused.home.started) == 2 * ENOUGH


def test_where_there_is_no_way_out_they_are_given_up_with_its_last_words(refused: Supervised) -> None:
    def none() -> str:
        raise NoWayOutError("something else is visible of epoch 2")

    refused.drivers.way_out = none
    assert "there was no way out: something else is visible of epoch 2" in refused.start_in_vain()
    assert refused.drivers.refused
    assert len(refused.home.started) == ENOUGH


def test_a_driver_that_ends_under_what_is_done_to_all_of_them_is_told_of_and_does_not_count(
    running: Callable[..., Supervised],
) -> None:
    """As one that does not come up; when it is over, those that end count again."""
    world = running("print('AccessError: its clock'); raise SystemExit(77)")
    world.drivers.under = "a clock off by +3600 s"
    world.drivers.start("driver", world.folder / "settings.json")
    soon("more ends than it gives up after", lambda: len(world.drivers.last_words) > GIVE_UP)
    assert world.drivers.alive() is None
    assert set(world.drivers.last_words.values()) == {"AccessError: its clock"}
    assert "ended under a clock off by +3600 s (exit code 77): AccessError: its clock" in world.said[0]
    assert {state for state, _ in world.read_states()} == {"ended"}
    world.drivers.under = None
    soon("the end of trying", lambda: world.drivers.alive() is not None)
    assert sum("was not struck" in line for line in world.said) == GIVE_UP


@pytest.mark.parametrize("way", ["kill", "stop"])
def test_a_driver_that_is_to_end_is_not_followed(world: Supervised, way: str) -> None:
    first = world.start()
    getattr(world.drivers, way)()
    assert world.drivers.driver == first
    assert f"pid {first}" in (world.drivers.alive() or "")
    with pytest.raises(NoProcessError):
        world.drivers.kill_driver()
    assert len(world.home.started) == 1


def test_after_such_an_end_a_driver_can_be_started_again(world: Supervised) -> None:
    first = world.start()
    world.drivers.kill()
    second = world.start()
    assert second != first
    world.drivers.kill_driver()
    assert world.followed(second) != second


def test_a_driver_beside_another_is_the_one_that_is_followed(world: Supervised) -> None:
    first = world.start()
    second = world.drivers.start_beside()
    assert world.drivers.driver == second != first
    os.kill(first, signal.SIGKILL)
    soon("its end to be told", lambda: ("ended", first) in world.read_states())
    assert world.drivers.driver == second
    world.up()
    world.drivers.kill_driver()
    world.followed(second)


def test_the_end_takes_drivers_that_stand_still_with_it(world: Supervised) -> None:
    first = world.start()
    second = world.drivers.start_beside()
    for pid in (first, second):
        os.kill(pid, signal.SIGSTOP)
    soon("both to stand still", lambda: {state_of(first), state_of(second)} == {psutil.STATUS_STOPPED})
    world.drivers.end()
    assert identity(first) is None
    assert identity(second) is None
