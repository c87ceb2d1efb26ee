"""A run on a cluster: what its programme says is done in order, and tidied up whichever way it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Self, cast

import pytest

from infra.cluster.platform import assume_platform
from infra.console import Console
from infra.embedded.stack import Endpoints
from infra.toolchain.prepare import CHECKOUT
from tests.harness.adapters.pod_login import PodLogin
from tests.harness.campaigns.acceptance import programme_of
from tests.harness.campaigns.suites import SUITES, suite_named
from tests.harness.controls.names import EVERY, QUICK
from tests.harness.cut_sorts import CUT
from tests.harness.evidence import Manifest
from tests.harness.play import cluster_run
from tests.harness.play.cluster_acts import CONTROL_SCRIPT, SHARDS
from tests.harness.play.cluster_run import ClusterRun, Programme
from tests.harness.run_directory import RunDirectory
from tests.harness.schedule import plan_of
from tests.harness.sinks import ACCEPTED_ROWS
from tests.harness.stack import pods
from tests.harness.stack.deployed import BrokerTools, Found, Target

NAME = "20261122-050000-7"


class FakeStack:
    """Remembers that it was tidied up."""

    run = "r-7"

    def __init__(self, *_: Any, login: PodLogin) -> None:
        assert login == PodLogin(), "the stack takes plain connections"

    def tidy(self) -> None:
        FakeActs.done.append("tidy")


class FakeActs:
    """Remembers what was played; fails at the part of its name."""

    done: list[Any] = []  # noqa: RUF012 - emptied by the fixture
    fails_at = ""

    def __init__(self, stack: FakeStack, seed: int, stop: Any, table: Any) -> None:
        assert (stack.run, seed) == ("r-7", 7)
        self.table = table

    def _do(self, part: str) -> None:
        self.done.append(part)
        if part == self.fails_at:
            raise RuntimeError(part)

    def baseline(self, subject: Any, manifest: Any) -> None:
        assert manifest["faults_planned"] == 0
        self._do("baseline")

    def main(self, subject: Any, planned: Any, arsenal: Any, **_: Any) -> None:
        self.done.append(arsenal("drivers", "watch") if arsenal else None)
        if self.table is not None:
            self.table.begun = True
        self._do("main")

    def controls(self, controls: Any) -> None:
        assert controls
        self._do("controls")


class FakeTenancy:
    """Room for a run."""

    def __init__(self, *_: Any) -> None:
        FakeActs.done.append("room")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        FakeActs.done.append("given back")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClusterRun:
    monkeypatch.setattr(FakeActs, "done", [])
    monkeypatch.setattr(FakeActs, "fails_at", "")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "")
    for name, fake in (("ClusterStack", FakeStack), ("Tenancy", FakeTenancy), ("Cluster", lambda *_: "the cluster")):
        monkeypatch.setattr(pods, name, fake)
    monkeypatch.setattr(cluster_run, "ClusterActs", FakeActs)

    class Deployed:
        kubeconfig, context, platform = tmp_path, None, assume_platform()

        def endpoints(self) -> Endpoints:
            return Endpoints("k:1", "http://m:1", "a", "b", "bucket")

    return ClusterRun(
        tmp_path,
        Found(cast("Any", Deployed()), BrokerTools(tmp_path, tmp_path), tmp_path),
        Target("pipelines", {}),
        programme_of(suite_named("smoke"), 7),
        7,
        Console(),
    )


def play(run: ClusterRun) -> list[Any]:
    run._play(RunDirectory(run.checkout / NAME))
    return FakeActs.done


def changed(run: ClusterRun, **fields: Any) -> ClusterRun:
    run.programme = Programme(**{**vars(run.programme), **fields})
    return run


@pytest.mark.parametrize(
    ("fields", "played"),
    [
        (lambda _: {}, [None, "main", "controls"]),
        (lambda run: {"baseline": run.programme.subject, "controls": ()}, ["baseline", None, "main"]),
        (
            lambda _: {"arsenal": lambda stack, drivers, watch: (stack.run, drivers, watch), "controls": ()},
            [("r-7", "drivers", "watch"), "main"],
        ),
    ],
    ids=["a suite", "a baseline, and no controls", "an arsenal on the stack"],
)
def test_what_a_programme_says_is_done_in_order(
    run: ClusterRun, fields: Callable[[ClusterRun], dict[str, Any]], played: list[Any]
) -> None:
    assert play(changed(run, **fields(run))) == ["room", *played, "tidy", "given back"]


def test_the_controls_take_their_job_along() -> None:
    assert CONTROL_SCRIPT == CHECKOUT / "tests" / "harness" / "controls" / "job.py"
    assert CONTROL_SCRIPT.is_file()


@pytest.mark.parametrize("part", ["main", "controls"])
def test_a_run_that_fails_is_tidied_up_and_gives_its_room_back(
    run: ClusterRun, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeActs, "fails_at", part)
    with pytest.raises(RuntimeError, match=part):
        play(run)
    assert FakeActs.done[-2:] == ["tidy", "given back"]


class FakeTable:
    """A table that is lent."""

    begun = False

    @contextmanager
    def lent(self, cluster: Any, run: str) -> Iterator[None]:
        assert (cluster, run) == ("the cluster", "r-7")
        FakeActs.done.append("lent")
        try:
            yield
        finally:
            FakeActs.done.append("dropped")


@pytest.mark.parametrize("part", ["main", ""])
def test_a_table_is_there_for_the_run_alone_and_after_its_pipelines(
    run: ClusterRun, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeActs, "fails_at", part)
    table = FakeTable()
    changed(run, table=table, controls=())
    with pytest.raises(RuntimeError, match=part) if part else nullcontext():
        play(run)
    assert table.begun
    assert FakeActs.done == ["room", "lent", None, "main", "tidy", "dropped", "given back"]


@pytest.mark.parametrize("table", [None, FakeTable()])
def test_a_table_is_one_more_sink_to_judge(run: ClusterRun, table: FakeTable | None) -> None:
    sinks = Manifest.model_validate(changed(run, table=table)._manifest(NAME)).settings.sinks
    assert (ACCEPTED_ROWS in sinks, len(sinks)) == (table is not None, 4 + (table is not None))


@pytest.mark.parametrize("name", SUITES)
def test_the_manifest_of_a_suite_counts_its_strikes_and_names_its_controls(run: ClusterRun, name: str) -> None:
    suite = suite_named(name)
    run.programme = programme_of(suite, 7)
    told = Manifest.model_validate(run._manifest(NAME))
    assert told.faults_planned == sum(one.count for one in told.faults or ()) == len(suite.draw(7))
    assert [one.name for one in told.controls if one.must == "pass"] == (["baseline"] if suite.baseline else [])
    due = [(one.name, one.shows) for one in (EVERY if suite.every_control else QUICK)]
    assert [(one.name, one.shows) for one in told.controls if one.must == "fail"] == due
    # A cut takes another step, and a length.
    drawn = zip(run.programme.planned, plan_of(7, suite.draw(7), SHARDS), strict=True)
    assert all(one == other for one, other in drawn if one.strike.kind != CUT)
    assert Manifest.model_validate(changed(run, controls=(), baseline=None)._manifest(NAME)).controls == ()
