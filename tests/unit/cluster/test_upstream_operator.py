"""The reproduction of what operator 2.5.2 forgets: stand-ins of a cluster that forgets, and of one that does not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.upstream.operator_submission import Application, CannotTryError, reproduce


class World:
    """A cluster with one application; its time goes on with every wait."""

    def __init__(self, *, forgets: bool, state: str = "RUNNING", heals: bool = True) -> None:
        self.forgets, self.heals, self.state = forgets, heals, state
        self.drivers, self.now, self.born, self.submission = ["a"], 0.0, 1, "first"
        self.changes: list[Any] = []

    def application(self) -> Application:
        return Application("pipelines", "uc", self.ask, self.wait, lambda: self.now)

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        return False

    def ask(self, words: Sequence[str]) -> str:
        assert list(words[:2]) == ["-n", "pipelines"]
        verb, what = words[2], words[3]
        if verb == "get" and what == "pods":
            return json.dumps({"items": [{"metadata": {"uid": one}} for one in self.drivers]})
        if verb == "get":
            return json.dumps({"status": {"applicationState": {"state": self.state}}})
        if verb == "delete":
            self.drivers = []
            if self.submission or not self.forgets:
                self._submit()
        else:
            change = json.loads(words[words.index("-p") + 1])
            self.changes.append(change)
            if "--subresource=status" in words:
                self.state, self.submission = change["status"]["applicationState"]["state"], ""
            elif not self.drivers and self.heals:
                self._submit()
        return ""

    def _submit(self) -> None:
        self.born += 1
        self.drivers, self.state, self.submission = [f"driver {self.born}"], "SUBMITTED", str(self.born)


def test_a_driver_that_nothing_follows_is_shown_and_healed() -> None:
    world, said = World(forgets=True), list[str]()
    assert reproduce(world.application(), said.append, 90.0)
    assert world.now >= 90.0
    assert "none followed, and the state is PENDING_RERUN" in said[2]
    assert world.drivers
    assert world.changes[-1] == {"metadata": {"annotations": {"effectively-once/touched": None}}}


def test_an_operator_that_remembers_is_told_of() -> None:
    world, said = World(forgets=False), list[str]()
    assert not reproduce(world.application(), said.append, 90.0)
    assert "a driver followed by itself" in said[-1]


def test_an_application_that_does_not_run_is_left_alone() -> None:
    world = World(forgets=True, state="FAILING")
    with pytest.raises(CannotTryError, match="uc is FAILING: name an application that runs"):
        reproduce(world.application(), lambda _: None)
    assert world.changes == []


def test_one_that_no_change_heals_is_no_success() -> None:
    world = World(forgets=True, heals=False)
    with pytest.raises(CannotTryError, match="look at the operator"):
        reproduce(world.application(), lambda _: None)
