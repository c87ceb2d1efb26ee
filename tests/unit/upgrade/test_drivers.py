"""Drivers that the stack deploys: first by an update, later as in any run; while it changes no end is news."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.adapters.pod_log import DRIVER
from tests.harness.history import History
from tests.harness.upgrade.drivers import DeployedPods
from tests.unit.harness.fake_cluster import RUNS, UIDS, ended, pod
from tests.unit.harness.test_armed import FakeSession
from tests.unit.harness.test_pods import OnCluster

NAME = "uc-1-driver"


class World(OnCluster):
    """A deployed pipeline, whose driver runs."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.deployed: list[Path] = []
        self.changing = True
        self.history = History(folder / "history.jsonl")
        self.said: list[str] = []
        self.drivers = DeployedPods(
            *self.given,
            self.said.append,
            history=self.history,
            deploy=self.deployed.append,
            deployed=lambda: {"name": "other", "image": "job:20", "wheelDigest": "w20"},
            changing=lambda: self.changing,
        )
        self.cluster.sessions[NAME] = lambda _: FakeSession("")

    def applied(self) -> list[Any]:
        return [one for one in self.cluster.done if one[0] == "apply"]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.history.close()


def test_the_first_start_is_an_update_of_the_stack(world: World) -> None:
    world.drivers.start("driver", world.settings)
    assert world.deployed == [world.settings]
    assert world.applied() == []


def test_no_end_is_news_while_changes_are_made(world: World) -> None:
    world.drivers.start("driver", world.settings)
    world.log.set(pod(NAME, UIDS["a"], DRIVER, state=ended(143)))
    assert world.drivers.alive() is None
    world.log.set(*[pod(NAME, uid, DRIVER, state=ended(1)) for uid in UIDS.values()])
    assert world.drivers.alive() is None
    world.changing = False
    world.log.set(*[pod(NAME, uid, DRIVER, state=ended(1)) for uid in UIDS.values()])
    assert world.drivers.alive() is None
    assert world.said == []


def test_a_pipeline_that_was_given_up_is_not_alive(world: World) -> None:
    world.drivers.start("driver", world.settings)
    world.log.set(pod(NAME, UIDS["a"], DRIVER, state=RUNS))
    world.drivers.give_up("no epoch came")
    assert world.drivers.alive() == "no epoch came"
    world.changing = False
    assert world.drivers.alive() == "no epoch came"


def test_the_epilogue_starts_what_the_stack_has_by_then(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.drivers.start("driver", world.settings)
    world.log.set(pod(NAME, UIDS["a"], DRIVER, state=ended(137)))
    world.drivers.kill()
    assert world.drivers.values["image"] == "job:20"
    assert world.drivers.name == "uc-1"
    world.drivers.start("driver", world.settings)
    assert world.deployed == [world.settings]
    assert len(world.applied()) == 1


def test_pods_of_the_stack_have_no_label_of_the_run(world: World) -> None:
    assert world.drivers._selector == "sparkoperator.k8s.io/app-name=uc-1"
