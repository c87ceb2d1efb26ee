"""The campaign on a cluster: what is refused before anything is touched, what it plans, and what it is made from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.cluster.access import Access
from infra.console import Console
from tests.harness.adapters.events import Watch
from tests.harness.adapters.pod_requests import PodRequests, values_of_requests
from tests.harness.adapters.rendering import lay_over
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.campaigns import chaos
from tests.harness.campaigns import cluster as campaign
from tests.harness.campaigns.cluster import changes_of, programme_of, refuse_requests, strikes_of, table_of
from tests.harness.cluster_sorts import USUAL_NODES, USUAL_ROLES, sorts_on
from tests.harness.conditions import USUAL, Conditions
from tests.harness.controls.names import EVERY
from tests.harness.faults.cluster_arsenal import ClusterArsenal
from tests.harness.faults.cluster_platform import Platform
from tests.harness.mixture import TABLE, plan
from tests.harness.platform_sorts import LEADERS, RESULT_STORE
from tests.harness.play.cluster_acts import SHARDS
from tests.harness.play.cluster_run import Programme, leaders_of
from tests.harness.play.planned import describe
from tests.harness.portions import sent_by
from tests.harness.schedule import DECLARED, EARLY_STEPS, Strike
from tests.harness.sinks import ACCEPTED_ROWS
from tests.harness.stack.cluster import ClusterStack
from tests.harness.stack.deployed import BrokerTools, Found, NotDeployedError
from tests.harness.stall_sorts import REQUESTS
from tests.unit.harness.fake_cluster import platform

SEEDS = st.integers(0, 2**40)
NONE = cast("Any", None)


def programme(seed: int, strikes: Sequence[Strike], on: Platform | None = None, *, controls: bool = False) -> Programme:
    """A campaign of `user_counts`."""
    subject, on = sent_by(seed, 20_000, strikes, USUAL), on or platform(None, brokers=1)
    return programme_of(seed, subject, strikes, on, zombie_s=7.0, controls=controls)


def arsenal_of(made: Programme) -> ClusterArsenal:
    """What a programme strikes with."""
    assert made.arsenal is not None
    stack = type("S", (), {"cluster": None, "run": "r-3", "console": type("C", (), {"say": print})})
    place = made.arsenal(cast("ClusterStack", stack), cast("SupervisedPods", NONE), cast("Watch", NONE))
    assert isinstance(place, ClusterArsenal)
    return place


@pytest.mark.parametrize("name", LEADERS)
def test_its_plan_can_be_asked_for_by_name_and_all_is_the_plan_it_was(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--on", "cluster", "--plan", "--seed", "3"]
    assert (chaos.main([*words, "--faults", f"{name}*3"]), capsys.readouterr().out.count(name)) == (0, 3)
    assert (chaos.main(words), capsys.readouterr().out.count(name)) == (0, 0)


def test_leaders_are_asked_for_only_where_there_are_several_brokers_of_ours(tmp_path: Path) -> None:
    tools = BrokerTools(Path("java"), Path("jars"))
    directory = type("R", (), {"path": tmp_path / "20261122-101112-7"})
    endpoints = type("E", (), {"kafka_bootstrap": "b:1,b:2,b:3"})
    stack = cast("ClusterStack", type("S", (), {"tools": tools, "directory": directory, "endpoints": endpoints}))
    found = leaders_of(stack, platform(None))
    assert found is not None
    assert (found.pipeline, found.topic) == ("uc_202611221011127", "events_uc_202611221011127")
    assert (found.bootstrap, found.shards) == ("b:1,b:2,b:3", SHARDS)
    assert leaders_of(stack, platform(None, brokers=1)) is None
    assert leaders_of(stack, Platform({}, None)) is None


@pytest.mark.parametrize("words", [["--faults", "worker-hang"], ["--faults", "nothing"], ["--records", "5"]])
def test_what_there_is_not_is_refused_in_one_line_before_anything_is_looked_for(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Found, "here", lambda _: pytest.fail("looked for a cluster"))
    assert chaos.main(["--on", "cluster", "--seed", "3", *words]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    if words[0] == "--faults":
        assert all(name in told for name in sorts_on(USUAL_NODES, USUAL_ROLES, 3))


def test_a_zombie_on_one_node_is_refused_before_anything_is_touched(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Deployed:
        deployed = type("D", (), {"kubeconfig": None, "context": None, "platform": None})

        def target(self, _: str) -> Any:
            return type("T", (), {"namespace": "pipelines"})

    cluster = type("C", (), {"nodes": lambda _: [{"metadata": {"name": "only"}}], "reader": None})()
    monkeypatch.setattr("tests.harness.campaigns.cluster.Found.here", lambda _: Deployed())
    monkeypatch.setattr(campaign, "Cluster", lambda *_: cluster)
    monkeypatch.setattr("tests.harness.campaigns.cluster.Nodes.here", lambda *_: object())
    monkeypatch.setattr("tests.harness.campaigns.cluster.Platform.of", lambda *_, **__: platform(None))
    monkeypatch.setattr(campaign, "heal_nodes", lambda *_: pytest.fail("touched a node"))
    monkeypatch.setattr(campaign, "ClusterRun", type("R", (), {"of": lambda *_: pytest.fail("ran")}))
    assert chaos.main(["--on", "cluster", "--seed", "3", "--faults", "zombie"]) == 2
    assert "PROFILE=chaos" in capsys.readouterr().err


def test_nothing_deployed_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def here(_: Any) -> Any:
        raise NotDeployedError("nothing is deployed: run `make up`")

    monkeypatch.setattr("tests.harness.campaigns.cluster.Found.here", here)
    assert chaos.main(["--on", "cluster", "--seed", "3"]) == 2
    assert capsys.readouterr().err == "✗ nothing is deployed: run `make up`\n"


@pytest.mark.parametrize("end", [KeyboardInterrupt(), SystemExit(143)])
def test_an_interrupted_run_says_that_faults_are_undone(
    end: BaseException, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> Any:
        raise end

    monkeypatch.setattr(Found, "here", lambda *_: None)
    monkeypatch.setattr(campaign, "_play", interrupted)
    code = 143 if isinstance(end, SystemExit) else 130
    assert chaos.main(["--on", "cluster", "--seed", "3"]) == code
    assert "every fault is undone" in capsys.readouterr().err


def test_the_plan_can_be_asked_for_without_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert chaos.main(["--on", "cluster", "--plan", "--seed", "3"]) == 0
    planned = plan(3, strikes_of("all", 3, USUAL_NODES, USUAL_ROLES), SHARDS, steps=EARLY_STEPS, table=TABLE)
    assert capsys.readouterr().out.rstrip("\n") == describe(planned)
    others = {(one.step, one.sink) for one in planned if one.strike.target != RESULT_STORE}
    assert others <= {*EARLY_STEPS, (DECLARED, None)}


@given(seed=SEEDS)
def test_the_result_store_is_struck_when_its_table_is_written(seed: int) -> None:
    strikes = strikes_of("database-kill,database-delete", seed, 1, USUAL_ROLES)
    made = programme(seed, strikes, platform(None))
    assert {(one.step, one.sink) for one in made.planned} <= set(TABLE)
    assert all(sink == ACCEPTED_ROWS for _, sink in TABLE)


def test_without_a_result_store_of_ours_there_is_no_table_which_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    console = cast("Console", type("C", (), {"say": lambda _, text: said.append(text)})())
    deployed = cast("Access", type("D", (), {"platform": "told"}))
    monkeypatch.setattr("tests.harness.campaigns.cluster.PodDatabase.of", lambda *found: found)
    assert table_of(deployed, Platform({}, None), console) is None
    assert "faults of the result store" in said.pop()
    table = table_of(deployed, platform(None), console)
    assert table is not None
    assert cast("Any", table.database)[1:] == ("told",)
    assert not said


@pytest.mark.parametrize("controls", [True, False])
def test_a_programme_says_what_it_was_made_from_and_makes_the_clusters_faults(controls: bool) -> None:
    strikes = strikes_of("driver-kill,zombie*2", 3, 2, ())
    made = programme(3, strikes, controls=controls)
    assert made.named == {"campaign": "cluster", "records": "20000", "faults": "driver-kill,zombie,zombie"}
    assert sorted(map(repr, strikes)) == sorted(repr(one.strike) for one in made.planned)
    assert made.subject.portion * len(strikes) < made.subject.numbers.sent == 20_000
    assert made.controls == (EVERY if controls else ())
    place = arsenal_of(made)
    assert (place.run, place.zombie_s) == ("r-3", 7.0)
    assert place.requests is None, "drivers take requests only where the plan has some"
    assert "module" not in made.changes


@pytest.mark.parametrize("name", REQUESTS)
def test_drivers_take_requests_where_the_plan_has_some(name: str) -> None:
    strikes = strikes_of(f"{name},driver-kill", 3, 0, ())
    made = programme(3, strikes)
    assert isinstance(arsenal_of(made).requests, PodRequests)
    deployed = {"name": "uc", "module": None, "environment": {"OWN": "1"}, "extraFiles": {"own.py": ""}}
    values = lay_over(deployed, made.changes)
    asked = values_of_requests()
    assert values["module"] == asked["module"]
    assert values["environment"] == {"OWN": "1", **asked["environment"]}
    assert values["extraFiles"] == {"own.py": "", **asked["extraFiles"]}


def test_requests_go_around_the_job_without_proof() -> None:
    asked, unproven = values_of_requests(), changes_of(Conditions(unproven=True))
    both = changes_of(Conditions(unproven=True), list(REQUESTS.values()))
    assert both["settings"] == {"job": "without_proof"}
    assert both["extraFiles"] == {**unproven["extraFiles"], **asked["extraFiles"]}
    assert both["module"] == asked["module"]


@pytest.mark.parametrize(
    ("values", "told"),
    [({"module": "my.program"}, "my.program"), ({"settings": {"job": "jobs:other"}}, "jobs:other")],
)
def test_a_deployed_program_that_requests_would_displace_is_refused(values: dict[str, Any], told: str) -> None:
    deployed = {"settings": {"job": "effectively_once_jobs.user_counts"}}
    refuse_requests(deployed)
    with pytest.raises(NotDeployedError, match=f"deployed as {told}"):
        refuse_requests(deployed | values)
