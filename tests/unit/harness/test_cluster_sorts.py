"""The sorts of faults on a cluster: which there are, what each needs, and what is refused for want of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.embedded.stack import Endpoints
from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.disk_probes import DatabaseProbe
from tests.harness.adapters.events import Watch
from tests.harness.adapters.leaders import Leaders
from tests.harness.adapters.pod_requests import PodRequests
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.campaigns.cluster import strikes_of
from tests.harness.cluster_sorts import (
    CLUSTER,
    COPIES_NEEDED,
    MOST_COPIES,
    MOST_NODES,
    MOST_ROLES,
    NODES_NEEDED,
    PIPELINE,
    ROLE_NEEDED,
    USUAL_ROLES,
    lacking,
    sorts_on,
)
from tests.harness.cut_sorts import BETWEEN, CLUSTER_CUTS, CUT, NODES_CUT, OF_NODES
from tests.harness.faults.campaign import SAID
from tests.harness.faults.cluster_arsenal import ClusterArsenal
from tests.harness.faults.healing import Healing
from tests.harness.faults.slow_disk_arsenal import SlowDisks
from tests.harness.history import History
from tests.harness.mixture import EMBEDDED, SORTS, TABLE, NoFaultError, plan
from tests.harness.platform_sorts import DISK_LOST, LEADERS, NODE_DRAIN, ROLLOUT
from tests.harness.play.cluster_acts import SHARDS
from tests.harness.schedule import DECLARED, EARLY_STEPS
from tests.harness.stall_sorts import REQUESTS
from tests.unit.harness.fake_cluster import platform

SEEDS = st.integers(0, 2**40)
NONE = cast("Any", None)
EVERY_ROLE, MANY = USUAL_ROLES, 3
MOST = (MOST_NODES, MOST_ROLES, MANY)
KEYS = {"s3_access_key": "a", "s3_secret_key": "b"}


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


@given(seed=SEEDS, count=st.integers(1, 30))
def test_a_number_draws_from_what_the_cluster_has(seed: int, count: int) -> None:
    assert set(strikes_of(str(count), seed, 1, USUAL_ROLES)) <= set(sorts_on(1, USUAL_ROLES).values())
    assert len(strikes_of(str(count), seed, 1, USUAL_ROLES)) == count
