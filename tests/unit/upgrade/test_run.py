"""A run puts the stack back whichever way it ends, and while its own objects are still there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from infra.console import Console
from infra.settings.security import Security
from tests.harness.evidence import Manifest
from tests.harness.run_directory import RunDirectory
from tests.harness.upgrade import run
from tests.harness.upgrade.changes import Facts, choose
from tests.harness.upgrade.look import Look
from tests.harness.upgrade.run import CLAIM, Upgrade, subject_of
from tests.harness.upgrade.table import markdown

NAME = "20261128-051500-7"


class World:
    """Notes what is done, and fails where it is told to."""

    deployed = None

    def __init__(self) -> None:
        self.done: list[str] = []
        self.fails_at = ""

    def do(self, what: str) -> None:
        self.done.append(what)
        if what == self.fails_at:
            raise RuntimeError(what)

    def make_room(self, others: list[str]) -> None:
        self.do(f"suspend {', '.join(others)}")

    def put_back(self) -> None:
        self.done.append("put back")

    def target(self) -> str:
        return "target"

    @contextmanager
    def on_cluster(self, *_: Any, **__: Any) -> Iterator[World]:
        self.do("room")
        try:
            yield self
        finally:
            self.do("tidy")

    def controls(self, _: Any) -> None:
        self.do("controls")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(run, "logged_in", lambda _: nullcontext())
    monkeypatch.setattr(run, "on_cluster", made.on_cluster)
    monkeypatch.setattr(run, "ClusterActs", lambda *_: made)
    monkeypatch.setattr(Upgrade, "_deployment", lambda *_: made)
    monkeypatch.setattr(Upgrade, "_act", lambda *_: made.do("act"))
    return made


def upgrade(world: Any) -> Upgrade:
    facts = Facts("", Security(), 2, {"epoch_rows_max": 24_000, "lateness_ms": 0}, lambda _: "", Look())
    changes = choose("executors,wheel")
    none: Any = None
    return Upgrade(world, 7, Console(), none, none, none, changes, facts, {"passwords": "off"}, ["user_counts"])


@pytest.mark.parametrize(
    ("fails_at", "done"),
    [
        ("", ["suspend user_counts", "room", "act", "controls", "put back", "tidy", "put back"]),
        ("suspend user_counts", ["suspend user_counts", "put back"]),
        ("room", ["suspend user_counts", "room", "put back"]),
        ("act", ["suspend user_counts", "room", "act", "put back", "tidy", "put back"]),
        ("tidy", ["suspend user_counts", "room", "act", "controls", "put back", "tidy", "put back"]),
    ],
)
def test_the_stack_is_put_back_whichever_way_it_ends(
    world: World, tmp_path: Path, fails_at: str, done: list[str]
) -> None:
    world.fails_at = fails_at
    try:
        upgrade(world)._play(RunDirectory(tmp_path / NAME), subject=subject_of(7, 2))
    except RuntimeError as error:
        assert str(error) == fails_at
    assert world.done == done


def test_the_manifest_plans_each_change(world: World) -> None:
    made = upgrade(world)
    count = {"executors": 2, "wheel": 20}
    assert [one.name for one in made.steps] == ["executors"] * 2 + ["wheel"] * 20
    document = made._manifest(NAME, subject=subject_of(7, 22), count=count)
    manifest = Manifest.model_validate(document)
    assert {one.name: one.count for one in manifest.changes} == count
    assert (manifest.claim, manifest.faults_planned) == (CLAIM, 0)
    assert document["settings"]["left_out"] == "passwords"
    assert document["settings"]["pipeline"] == "up_202611280515007"


def test_a_table_without_changes_has_its_head() -> None:
    assert markdown([]).count("\n") == 2
