"""Changes are made one after the other, and what came of each is written down, whatever that is."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from infra.cluster.pulumi import PulumiError
from tests.harness.adapters.cluster import ClusterTimeoutError
from tests.harness.history import History, read_history
from tests.harness.upgrade import play
from tests.harness.upgrade.changes import Step
from tests.harness.upgrade.look import Look, see_executors
from tests.harness.upgrade.play import EVERY_S, Changes

EXECUTORS = Step("executors", "3 executors", {"pipelines.up.executors.count": "3"}, see_executors(3))
LATENESS = Step("lateness", "refused", {"l": "2"}, see_executors(2), refused="lateness_ms", undo={"l": "1"})
BUMP = Step("wheel", "1 of 20", {}, see_executors(2), bump=1)


class World:
    """A stack, its pipeline and a clock that runs when somebody looks; epochs come by the second."""

    def __init__(self, folder: Path) -> None:
        self.now_s = 0.0
        self.history = History(folder / "history.jsonl")
        self.done: list[tuple[dict[str, str], int | None]] = []
        self.said: list[str] = []
        self.gave_up: list[str] = []
        self.seen = Look(driver="a", started="a", executors=2)
        self.takes = True
        self.stands = False
        self.fails: list[Exception | None] = []
        self.play = Changes([], cast("Any", None), cast("Any", None), self.history, say=self.said.append)

    def clock(self) -> float:
        self.now_s += 1.0
        return self.now_s

    def change(self, sets: Mapping[str, str], bump: int | None) -> None:
        self.done.append((dict(sets), bump))
        if self.fails and (error := self.fails.pop(0)) is not None:
            raise error
        if self.takes:
            driver = f"{self.seen.driver}+"
            count = int(sets.get("pipelines.up.executors.count", self.seen.executors))
            self.seen = replace(self.seen, driver=driver, started=driver, executors=count, image=f"job:{bump}")

    def look(self) -> Look:
        return self.seen

    def keep_settings(self, settings: Mapping[str, Any]) -> str:
        return "settings-change-2.json"

    def find_announced(self, event: str, since: int, **fields: Any) -> list[dict[str, Any]]:
        assert (event, fields) == ("epoch", {"state": "published"})
        return [] if self.stands and self.done else [{"t": since}]

    def make(self, *steps: Step) -> list[dict[str, Any]]:
        world: Any = self
        self.play = Changes(
            steps,
            world,
            world,
            self.history,
            say=self.said.append,
            give_up=self.gave_up.append,
            clock=self.clock,
            poll_s=0.0,
        )
        self.play.start()
        self.play.join(20)
        assert not self.play.is_alive()
        assert self.play.error is None
        return [one for one in read_history(self.history.path) if one["event"] == "change"]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.history.close()


def test_a_change_is_made_seen_and_told_with_where_it_was_seen(world: World) -> None:
    (told,) = world.make(EXECUTORS)
    assert world.done == [({"pipelines.up.executors.count": "3"}, None)]
    assert (told["name"], told["lacks"], told["failed"]) == ("executors", "", "")
    assert told["began"] <= told["seen"]
    assert told["up_s"] > 0
    assert told["evidence"] == {"driver": "a+", "executors": "2 before, 3 now"}
    assert world.play.waiting.is_set()


def test_one_that_did_not_take_effect_shows_nothing(world: World) -> None:
    world.takes = False
    told = world.make(EXECUTORS, BUMP)
    assert [one["lacks"] for one in told] == [
        "the change did not take effect: the driver is the one of before",
    ] * 2
    assert [one["seen"] for one in told] == [None, None]
    assert world.gave_up == []


def test_a_pipeline_that_does_not_go_on_within_its_bound_is_given_up(world: World) -> None:
    world.stands = True
    (told,) = world.make(EXECUTORS, BUMP)
    assert told["failed"] == "no epoch was published within 300 s after it"
    assert world.gave_up == [told["failed"]]
    assert len(world.done) == 1


def test_an_update_that_fails_is_told_and_the_next_is_made(world: World) -> None:
    world.fails = [PulumiError("pulumi up ended with 255")]
    first, second = world.make(EXECUTORS, BUMP)
    assert first["failed"] == "the update failed: pulumi up ended with 255"
    assert (second["failed"], second["lacks"]) == ("", "")
    assert second["evidence"] == {"driver": "a+", "image": "job:1", "wheel_digest": ""}


@pytest.mark.parametrize(
    ("fails", "failed"),
    [
        ([PulumiError("lateness_ms is 1 in head")], ""),
        ([None], "another lateness_ms was taken, and is to be refused"),
        ([PulumiError("no room")], "the update failed, and does not say that lateness_ms is refused: no room"),
        ([PulumiError("lateness_ms"), PulumiError("no room")], "lateness_ms could not be put back: no room"),
    ],
    ids=["refused", "taken", "failed otherwise", "not put back"],
)
def test_what_has_to_be_refused_is_put_back(world: World, fails: list[Exception | None], failed: str) -> None:
    world.fails = fails
    (told,) = world.make(LATENESS)
    assert told["failed"] == failed
    assert world.done == [({"l": "2"}, None), ({"l": "1"}, None)], "whatever went wrong"


def test_without_records_left_nothing_is_shown(world: World) -> None:
    world.play.drained.set()
    changes = Changes([EXECUTORS], cast("Any", world), cast("Any", world), world.history, say=world.said.append)
    changes.drained.set()
    world.stands, world.done = True, [({}, None)]
    changes.run()
    (told,) = [one for one in read_history(world.history.path) if one["event"] == "change"]
    assert told["lacks"] == "all records were published before: nothing shows that the pipeline goes on"


def test_a_stack_that_cannot_be_seen_for_a_moment_is_looked_at_again(world: World) -> None:
    looks: Iterator[Look | Exception] = iter(
        [Look(driver="a", started="a"), OSError("reset"), ClusterTimeoutError("away")]
    )

    def look() -> Look:
        found = next(looks, world.seen)
        if isinstance(found, Exception):
            raise found
        return found

    world.look = look  # type: ignore[method-assign]
    (told,) = world.make(EXECUTORS)
    assert told["lacks"] == ""


def test_records_come_in_portions_as_long_as_changes_are_made() -> None:
    now = [100.0]
    none: Any = None
    changes = Changes([], none, none, none, say=print, clock=lambda: now[0])
    assert [changes.more(), changes.more()] == [True, False]
    now[0] += EVERY_S
    assert [changes.more(), changes.more()] == [True, False]
    changes.waiting.set()
    assert [changes.more(), changes.more()] == [True, True]


def test_the_end_waits_for_an_update_that_is_under_way(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    began, over = threading.Event(), threading.Event()

    def change(sets: Mapping[str, str], bump: int | None) -> None:
        began.set()
        over.wait(10)

    world.change = change  # type: ignore[method-assign]
    monkeypatch.setattr(play, "EFFECT_S", 0.0)
    changes = Changes([EXECUTORS, BUMP], cast("Any", world), cast("Any", world), world.history, say=world.said.append)
    changes.start()
    assert began.wait(10)
    ending = threading.Thread(target=changes.end)
    ending.start()
    ending.join(0.2)
    assert ending.is_alive()
    over.set()
    ending.join(10)
    assert not changes.is_alive()
    assert world.done == []
