"""The campaign on a cluster: which sorts it has, what is refused before anything is touched, and what it plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.cluster.access import Access
from infra.console import Console
from infra.embedded.stack import Endpoints
from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.disk_probes import DatabaseProbe
from tests.harness.adapters.events import Watch
from tests.harness.adapters.leaders import Leaders
from tests.harness.adapters.nodes import Nodes
from tests.harness.adapters.pod_requests import PodRequests, values_of_requests
from tests.harness.adapters.rendering import lay_over
from tests.harness.adapters.server_pods import ServerPods
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.campaigns import chaos
from tests.harness.campaigns import cluster as campaign
from tests.harness.campaigns.cluster import changes_of, programme_of, refuse_requests, strikes_of, table_of
from tests.harness.cluster_sorts import (
    CLUSTER,
    COPIES_NEEDED,
    MOST_COPIES,
    MOST_NODES,
    MOST_ROLES,
    NODES_NEEDED,
    PIPELINE,
    ROLE_NEEDED,
    USUAL_NODES,
    USUAL_ROLES,
    lacking,
    sorts_on,
)
from tests.harness.conditions import USUAL, Conditions
from tests.harness.controls.names import EVERY
from tests.harness.cut_sorts import BETWEEN, CLUSTER_CUTS, CUT, NODES_CUT, OF_NODES
from tests.harness.faults.campaign import SAID
from tests.harness.faults.cluster_arsenal import ClusterArsenal
from tests.harness.faults.cluster_platform import Platform
from tests.harness.faults.healing import Healing
from tests.harness.faults.slow_disk_arsenal import SlowDisks
from tests.harness.history import History
from tests.harness.mixture import EMBEDDED, SORTS, TABLE, NoFaultError, plan
from tests.harness.platform_sorts import API_SERVER, BROKER, DISK_LOST, DNS, LEADERS, NODE_DRAIN, RESULT_STORE, ROLLOUT
from tests.harness.play.cluster_acts import SHARDS
from tests.harness.play.cluster_run import Programme, leaders_of
from tests.harness.play.planned import describe
from tests.harness.portions import sent_by
from tests.harness.schedule import DECLARED, EARLY_STEPS, Strike
from tests.harness.sinks import ACCEPTED_ROWS
from tests.harness.stack.cluster import ClusterStack
from tests.harness.stack.deployed import BrokerTools, Found, NotDeployedError
from tests.harness.stall_sorts import REQUESTS

SEEDS = st.integers(0, 2**40)
NONE = cast("Any", None)
EVERY_ROLE, MANY = USUAL_ROLES, 3
MOST = (MOST_NODES, MOST_ROLES, MANY)
KEYS = {"s3_access_key": "a", "s3_secret_key": "b"}


def platform(nodes: object | None, brokers: int = 3) -> Platform:
    """A platform of every server there is."""
    servers = {role: ServerPods.of(cast("Cluster", NONE), role) for role in (*MOST_ROLES, API_SERVER, DNS)}
    servers |= {role: replace(servers[role], count=count) for role, count in MOST_COPIES.items()}
    servers[BROKER] = replace(servers[BROKER], count=brokers)
    return Platform(servers, cast("Nodes", nodes))


def arsenal(folder: Path) -> ClusterArsenal:
    watch = Watch(folder / "events.jsonl", History(folder / "history.jsonl"))
    drivers = cast("SupervisedPods", type("D", (), {"cluster": None, "log": None}))
    leaders = Leaders("b:1", "p", "events_p", 2, lambda _: None)
    disks = SlowDisks(Path("/usr/bin/strace"), folder / "strace.log", dict.fromkeys(EVERY_ROLE, DatabaseProbe(NONE)))
    return ClusterArsenal(
        drivers,
        watch,
        cast("Cluster", NONE),
        platform(object()),
        "r",
        seed=0,
        say=print,
        leaders=leaders,
        requests=PodRequests(drivers),
        disks=disks,
    )


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


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> ClusterArsenal:
    """One for all: its client of brokers that are not there takes a while to end."""
    return arsenal(tmp_path_factory.mktemp("place"))


def test_a_server_that_does_not_answer_keeps_no_probe_of_another_from_being_deleted(place: ClusterArsenal) -> None:
    asked = list[str]()
    assert place.disks is not None

    class Silent(DatabaseProbe):
        def __init__(self, role: str) -> None:
            self.role = role

        def forget(self) -> None:
            asked.append(self.role)
            raise ConnectionError

    place = replace(place, disks=replace(place.disks, probes={role: Silent(role) for role in EVERY_ROLE}))
    place.close()
    assert sorted(asked) == sorted(EVERY_ROLE)


@pytest.mark.parametrize("name", CLUSTER)
def test_the_cluster_has_every_sort_of_its_table(place: ClusterArsenal, name: str) -> None:
    strike = CLUSTER[name]
    assert place.fault(strike) is not place.fault(strike), "every try has a fault of its own"
    assert strike.kind in SAID
    assert SORTS[name] == strike


def test_a_name_is_one_sort_on_every_stack_and_a_sort_has_one_name() -> None:
    assert {name: EMBEDDED[name] for name in EMBEDDED if name in CLUSTER} == {
        name: CLUSTER[name] for name in CLUSTER if name in EMBEDDED
    }
    assert len(set(SORTS.values())) == len(SORTS)


@pytest.mark.parametrize("name", [*NODES_NEEDED, *REQUESTS])
def test_without_nodes_as_machines_or_drivers_that_take_requests_there_is_no_fault_of_theirs(
    place: ClusterArsenal, name: str
) -> None:
    sort = CLUSTER[name]
    with pytest.raises(ValueError, match=sort.kind if name in REQUESTS else sort.target):
        replace(place, platform=platform(None), requests=None, disks=None).fault(sort)


@pytest.mark.parametrize("nodes", [0, 1, 2])
def test_all_is_what_nodes_and_servers_allow(nodes: int) -> None:
    strikes = set(strikes_of("all", 7, nodes, ()))
    assert strikes >= set(PIPELINE.values())
    assert {name for name in NODES_NEEDED if CLUSTER[name] in strikes} == {
        name
        for name, needed in NODES_NEEDED.items()
        if needed <= nodes and name not in ROLE_NEEDED and name not in COPIES_NEEDED
    }
    assert not strikes & {CLUSTER[name] for name in ROLE_NEEDED if name in CLUSTER}
    several = {CLUSTER[name] for name in COPIES_NEEDED}
    assert set(strikes_of("all", 7, 2, EVERY_ROLE, MANY)) == set(CLUSTER.values()) - several
    assert set(strikes_of("all", 7, *MOST)) == set(CLUSTER.values()) - several
    assert set(strikes_of("all", 7, *MOST, copies=MOST_COPIES)) == set(CLUSTER.values())


@pytest.mark.parametrize("name", [name for name in NODES_NEEDED if name not in COPIES_NEEDED])
@pytest.mark.parametrize(("nodes", "there"), [(1, "there is 1"), (0, "there is none")])
def test_a_sort_that_needs_more_nodes_is_refused_with_the_way_out(name: str, nodes: int, there: str) -> None:
    if NODES_NEEDED[name] <= nodes:
        assert strikes_of(name, 7, nodes, EVERY_ROLE) == (CLUSTER[name],)
        return
    with pytest.raises(NoFaultError, match=rf"{name} needs \d nodes? .*{there}: .*PROFILE=chaos"):
        strikes_of(f"driver-kill, {name}*2", 7, nodes, EVERY_ROLE)
    twice = strikes_of(f"driver-kill, {name}*2", 7, 2, EVERY_ROLE)
    assert twice == (CLUSTER["driver-kill"], CLUSTER[name], CLUSTER[name])


def test_cuts_are_those_that_nodes_and_servers_allow() -> None:
    assert set(strikes_of("cuts", 7, 2, EVERY_ROLE)) == set(CLUSTER_CUTS.values())
    without_kubelet = {one for name, one in CLUSTER_CUTS.items() if name not in OF_NODES}
    assert set(strikes_of("cuts", 7, 1, EVERY_ROLE)) == without_kubelet
    most = strikes_of("cuts", 7, *MOST, copies=MOST_COPIES)
    assert set(most) == {*CLUSTER_CUTS.values(), *NODES_CUT.values()}
    of_pipeline = {"executor-executor-cut", "driver-executor-cut", "driver-api-cut"}
    assert set(strikes_of("cuts", 7, 1, ())) == {CLUSTER[name] for name in of_pipeline}
    with pytest.raises(NoFaultError, match="there is no fault 'cuts'"):
        strikes_of("cuts", 7, 0, EVERY_ROLE)


@given(seed=SEEDS)
def test_a_cut_comes_at_a_declaration_or_at_an_early_step_of_its_own(seed: int) -> None:
    planned = plan(seed, tuple(CLUSTER.values()), SHARDS, steps=EARLY_STEPS, table=TABLE)
    for one in planned:
        if one.strike.kind == CUT:
            own = BETWEEN[one.strike.target].steps
            assert (one.step, one.sink) in ((DECLARED, None), *(step for step in own if step in EARLY_STEPS))


def test_memory_runs_out_at_a_step_or_after_a_declaration() -> None:
    plans = [plan(seed, (CLUSTER["executor-oom"],), SHARDS, steps=EARLY_STEPS)[0] for seed in range(60)]
    assert {one.step for one in plans} == {DECLARED, *(step for step, _ in EARLY_STEPS)}
    kills = [plan(seed, (CLUSTER["executor-kill"],), SHARDS, steps=EARLY_STEPS)[0] for seed in range(60)]
    assert DECLARED not in {one.step for one in kills}


@pytest.mark.parametrize("name", ROLE_NEEDED)
def test_a_sort_whose_server_is_none_of_ours_is_refused_by_that_name(name: str) -> None:
    role = ROLE_NEEDED[name]
    assert lacking(name, *MOST, copies=MOST_COPIES) is None
    with pytest.raises(NoFaultError, match=rf"{name}: .*{role}"):
        strikes_of(name, 7, 2, [one for one in MOST_ROLES if one != role], copies=MOST_COPIES)


@pytest.mark.parametrize("name", COPIES_NEEDED)
def test_a_sort_that_needs_copies_is_refused_with_how_many_there_are(name: str) -> None:
    """The record of a run is no stand-in: what the cluster has one of cannot be absorbed."""
    for role, needed in COPIES_NEEDED[name].items():
        fewer = MOST_COPIES | {role: needed - 1}
        with pytest.raises(NoFaultError, match=rf"{name} needs {needed} copies of the {role}, .*PROFILE=ha"):
            strikes_of(name, 7, *MOST, copies=fewer)
    with pytest.raises(NoFaultError, match=r"node-drain needs 3 nodes .*there is 2: .*PROFILE=ha"):
        strikes_of("node-drain", 7, 2, MOST_ROLES, MANY, copies=MOST_COPIES)


def test_a_server_of_one_copy_has_no_fault_of_copies_and_nobody_reads_it() -> None:
    single = platform(None, brokers=1)
    single = replace(single, servers={role: replace(one, count=1) for role, one in single.servers.items()})
    owed = Healing(print)
    made = single.makers(cast("SupervisedPods", type("D", (), {"cluster": None})), cast("Watch", NONE), owed)
    assert not {kind for kind, _ in made} & {ROLLOUT, DISK_LOST, NODE_DRAIN}
    endpoints = cast("Endpoints", type("E", (), {"kafka_bootstrap": "b:1", "s3_endpoint": "http://s:1", **KEYS}))
    assert single.services(endpoints) is None
    assert platform(None).services(endpoints) is not None


@pytest.mark.parametrize("name", LEADERS)
def test_a_sort_that_needs_several_brokers_is_refused_with_the_way_out(name: str) -> None:
    with pytest.raises(NoFaultError, match=rf"{name} needs 3 brokers, and there is 1: .*PROFILE=brokers"):
        strikes_of(f"driver-kill, {name}*2", 7, 2, EVERY_ROLE)
    assert strikes_of(f"{name}*2", 7, 1, EVERY_ROLE, MANY) == (CLUSTER[name],) * 2
    assert CLUSTER[name] not in strikes_of("all", 7, 2, EVERY_ROLE)


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


@given(seed=SEEDS, count=st.integers(1, 30))
def test_a_number_draws_from_what_the_cluster_has(seed: int, count: int) -> None:
    assert set(strikes_of(str(count), seed, 1, USUAL_ROLES)) <= set(sorts_on(1, USUAL_ROLES).values())
    assert len(strikes_of(str(count), seed, 1, USUAL_ROLES)) == count


@pytest.mark.parametrize("words", [["--faults", "worker-hang"], ["--faults", "nothing"], ["--records", "5"]])
def test_what_there_is_not_is_refused_in_one_line_before_anything_is_looked_for(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Found, "here", lambda _: pytest.fail("looked for a cluster"))
    assert chaos.main(["--on", "cluster", "--seed", "3", *words]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    if words[0] == "--faults":
        assert all(name in told for name in sorts_on(USUAL_NODES, USUAL_ROLES, MANY))


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
