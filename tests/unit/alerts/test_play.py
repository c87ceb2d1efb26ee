"""One fault on a scene that is made up: what is noted, and that it is healed whatever happens."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from typing import Any, cast

import pytest

from infra.console import Console
from tests.harness.adapters.cluster import ClusterTimeoutError
from tests.harness.alerts.answers import Active
from tests.harness.alerts.causes import CrashLoop
from tests.harness.alerts.faults import Fault
from tests.harness.alerts.feed import BAD, Feed
from tests.harness.alerts.judge import find_wrong
from tests.harness.alerts.play import Play, list_firing
from tests.harness.alerts.results import Played
from tests.harness.alerts.rules import Alert
from tests.harness.alerts.scene import Scene

AWAY = Alert("DriverAway", "pipelines", "", 60.0, ("pipeline",))


def active(name: str = "DriverAway", **labels: str) -> Active:
    return Active({"alertname": name, "pipeline": "uc", **labels}, fires=True)


class World:
    """A clock that runs while somebody sleeps, and alerts that fire `after_s` of a fault until it is healed."""

    def __init__(self, after_s: float | None = 30.0, *, heals: bool = True) -> None:
        self.now, self.after_s = 1000.0, after_s
        self.heals, self.healed = heals, 0
        self.begun: float | None = None
        self.also: list[Active] = []

    def scene(self) -> Scene:
        world = self

        class Watcher:
            def active(self) -> list[Active]:
                due = world.begun is not None and world.after_s is not None
                fires = due and world.now - cast(float, world.begun) >= cast(float, world.after_s)
                return [*([active()] if fires else []), *world.also]

            def received(self) -> dict[str, str]:
                return {"DriverAway": "active"}

        class OfWorld(Scene):
            @property
            def pipeline(self) -> str:
                return "uc"

            @property
            def application(self) -> str:
                return "uc"

            def wait_for(self, what: str, holds: Callable[[], bool], within_s: float) -> None:
                """Nothing is waited for here."""

        nothing: Any = None
        return OfWorld(
            "run", cast(Any, Watcher()), nothing, nothing, nothing, nothing, {}, nothing, {}, nothing, lambda _: None
        )

    def cause(self, scene: Scene) -> None:
        scene.owe("all of it", self.heal)
        self.begun = self.now

    def heal(self) -> None:
        self.healed += 1
        if self.heals:
            self.begun = None

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def play(self, **changes: Any) -> Played:
        usual = {"name": "f", "says": "", "raises": ("DriverAway",), "since": "", "cause": self.cause}
        fault = Fault(**{**usual, **changes})
        console = Console(stream=io.StringIO(), env={})
        return Play(self.scene(), {"DriverAway": AWAY}, console, lambda: self.now, self.sleep).play(fault)


def test_an_alert_is_noted_with_its_times_and_labels() -> None:
    played = World().play()
    (one,) = played.raised
    assert (one.fired_s, one.resolved_s, one.received, played.lacks) == (30.0, 0.0, "active", "")
    assert one.labels["pipeline"] == "uc"
    assert find_wrong(one) == []


@pytest.mark.parametrize(
    ("world", "says"),
    [
        (World(None), ["it did not fire, stated are 60 s"]),
        (World(90.0), ["it fired after 90 s, stated are 60 s"]),
        (World(heals=False), ["it fired on after the fault was healed"]),
    ],
)
def test_one_that_does_not_come_comes_late_or_stays_is_seen_and_healed(world: World, says: list[str]) -> None:
    (one,) = world.play().raised
    assert find_wrong(one) == says
    assert world.healed == 1


def test_a_fault_that_breaks_off_half_way_is_healed_and_says_why() -> None:
    world = World()

    def broken(scene: Scene) -> None:
        world.cause(scene)
        raise ClusterTimeoutError("no pod came")

    played = world.play(cause=broken)
    assert played.lacks == "ClusterTimeoutError: no pod came"
    assert world.healed == 1


def test_what_cannot_be_played_is_not_begun() -> None:
    world = World()
    assert world.play(needs=lambda _: "there is one broker").lacks == "there is one broker"
    assert (world.begun, world.healed) == (None, 0)


def test_other_alerts_are_noted_once() -> None:
    world = World()
    world.also = [active("TwoDrivers")]
    assert world.play().others == {"TwoDrivers": {"alertname": "TwoDrivers", "pipeline": "uc"}}


def test_all_is_undone_the_last_first_and_one_that_fails_does_not_keep_the_others() -> None:
    scene = World().scene()
    done: list[str] = []

    def fails() -> None:
        raise OSError("away")

    scene.owe("first", lambda: done.append("first"))
    scene.owe("second", fails)
    scene.owe("third", lambda: done.append("third"))
    with pytest.raises(ClusterTimeoutError, match="second: away"):
        scene.heal()
    assert done == ["third", "first"]
    scene.heal()
    assert done == ["third", "first"]


def test_alerts_of_pipelines_that_are_gone_are_not_ours() -> None:
    store = Active({"alertname": "ObjectStoreAway", "job": "minio"}, fires=True)
    pending = Active({"alertname": "TwoDrivers", "pipeline": "uc"}, fires=False)
    gone = active(pipeline="uc_2026"), active("DriverDoesNotStart", application="uc-2026")
    assert list_firing([active(), store, pending, *gone], ["uc"], ["uc"]) == [active(), store]


def test_each_driver_is_deleted_once() -> None:
    loop = CrashLoop()
    deleted: list[str] = []

    class OfLoop:
        generation = 7.0

        def value(self, _: str) -> float:
            return self.generation

        def at_work(self) -> str:
            return f"driver-{self.generation:.0f}"

        def delete_driver(self, name: str) -> None:
            deleted.append(name)

    scene: Any = OfLoop()
    loop.cause(scene)
    loop.keep(scene)
    scene.generation = 8.0
    loop.keep(scene)
    assert deleted == ["driver-7", "driver-8"]


def test_the_feed_makes_bad_records_where_it_is_asked_to() -> None:
    feed = Feed("127.0.0.1:1", "events", 4, "run")
    now_ms = time.time_ns() // 1_000_000
    good = [feed.make(number, now_ms) for number in range(100)]
    assert BAD not in {value for _, _, value in good}
    assert {partition for partition, _, _ in good} == {0, 1, 2, 3}
    assert len({value for _, _, value in good}) == 100
    feed.bad_share = 0.5
    assert 20 < sum(feed.make(number, now_ms)[2] == BAD for number in range(100)) < 80
