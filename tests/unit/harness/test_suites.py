"""Suites: what is struck follows from name and seed."""

from __future__ import annotations

from collections import Counter
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.cluster.record import Record
from infra.console import Console
from tests.harness.adapters.nodes import Nodes
from tests.harness.adapters.server_pods import ServerPods
from tests.harness.aftermath import effects_of
from tests.harness.campaigns.acceptance import (
    BASELINE_MINUTES,
    CLAIM,
    CLAIM_BEYOND,
    CLAIM_COPIES,
    on_this_machine,
    programme_of,
    subject_of,
)
from tests.harness.campaigns.suites import BEYOND_EXECUTORS, HA_SORTS, SUITES, NoSuiteError, Suite, suite_named
from tests.harness.cluster_sorts import CLUSTER, MOST_COPIES, MOST_NODES
from tests.harness.cut_sorts import CUT, SHORT_IN_PODS_S
from tests.harness.faults.cluster_platform import Platform
from tests.harness.mixture import NoFaultError, name_of, steps_of
from tests.harness.platform_sorts import BROKER, DISK_LOST, NODE_DRAIN, OBJECT_STORE, OPERATOR, ROLLOUT
from tests.harness.play.cluster_run import Programme
from tests.harness.schedule import EARLY_STEPS, EVERY_EXECUTOR, EXECUTOR, PlannedFault, Strike, plan_of
from tests.harness.stack.deployed import NotDeployedError, Target
from tests.harness.stack.names import identity
from tests.harness.stall_sorts import SHORT_S, STALL

ROLES = (BROKER, OBJECT_STORE, OPERATOR)
SEEDS = st.integers(0, 2**31)
WHERE = "tests.harness.campaigns.acceptance."


def test_all_is_what_was_asked_for_and_stays_at_executors() -> None:
    drawn = suite_named("all").draw(7, ROLES)
    assert drawn == suite_named("all").draw(7)
    assert Counter((one.kind, one.target) for one in drawn) == {
        ("pod_delete_graceful", "executor"): 2,
        ("pod_delete_now", "every executor"): 1,
        ("pod_delete_now", "executor"): 5,
        ("sigkill", "every executor"): 1,
        ("sigkill", "executor"): 5,
    }


@given(seed=SEEDS)
def test_smoke_is_five_strikes_of_three_kinds(seed: int) -> None:
    strikes = suite_named("smoke").draw(seed)
    assert strikes == suite_named("smoke").draw(seed)
    assert len(strikes) == 5
    assert strikes.count(Strike("sigkill")) == 3
    assert len(set(strikes)) == 3


def test_where_servers_may_be_struck_the_last_strike_is_of_any_role() -> None:
    smoke = suite_named("smoke")
    drawn = Counter(smoke.draw(seed, ROLES, 1)[-1] for seed in range(600))
    assert set(drawn) == {*smoke.seldom, *(CLUSTER[name] for name in BEYOND_EXECUTORS)}
    assert all(effects_of(one.kind, one.target) for one in drawn), "the judge knows what shows it"
    assert min(drawn.values()) > 10
    assert {one.target for one in drawn} >= {"executor", "driver", "broker", "object store", "operator"}


@given(seed=SEEDS, roles=st.sets(st.sampled_from(ROLES)))
def test_no_server_is_struck_that_is_not_there(seed: int, roles: set[str]) -> None:
    strikes = suite_named("smoke").draw(seed, roles)
    assert strikes == suite_named("smoke").draw(seed, roles)
    assert {one.target for one in strikes} & {*ROLES} <= roles
    assert not any(one.kind == CUT for one in strikes), "without its nodes as machines nothing is cut"
    cuts = [one.target for one in suite_named("smoke").draw(seed, roles, 1) if one.kind == CUT]
    assert all(role in roles for one in cuts for role in ROLES if role in one)
    assert not any("operator" in one.target for one in strikes if "operator" not in roles)
    assert all(one.target in (EXECUTOR, EVERY_EXECUTOR) for one in suite_named("smoke").draw(seed))


def test_a_programme_of_executors_alone_has_no_arsenal_of_its_own_and_another_has_the_clusters() -> None:
    platform = Platform({role: cast("ServerPods", None) for role in ROLES}, None)
    smoke, seen = suite_named("smoke"), set()
    for seed in range(30):
        made = programme_of(smoke, seed, platform)
        strikes = [one.strike for one in made.planned]
        beyond = any(one.target not in (EXECUTOR, EVERY_EXECUTOR) or one.kind == STALL for one in strikes)
        assert (made.arsenal is not None, made.claim) == (beyond, CLAIM_BEYOND if beyond else CLAIM)
        seen.add(beyond)
        assert programme_of(smoke, seed).arsenal is None
    assert seen == {True, False}
    assert "pods of the pipeline, of its broker" in CLAIM_BEYOND


def test_a_stall_or_cut_of_smoke_is_a_short_one_by_the_clusters_arsenal() -> None:
    """And a cut is one that an epoch feels, at a step where it finds work."""
    assert {one.planned_s for one in short_ones(STALL, None)} == set(SHORT_S)
    assert not short_ones(CUT, None), "nobody enters the pods' networks"
    cuts = short_ones(CUT, cast("Nodes", object()))
    assert {one.planned_s for one in cuts} == set(SHORT_IN_PODS_S)
    assert all((one.step, one.sink) in steps_of(one.strike, EARLY_STEPS) for one in cuts)
    assert {one.strike for one in cuts} == {CLUSTER[name] for name in BEYOND_EXECUTORS if name.endswith("-cut")}


def short_ones(kind: str, nodes: Nodes | None) -> list[PlannedFault]:
    """What 200 smoke runs would plan of a kind; each has the cluster's arsenal."""
    platform = Platform({role: cast("ServerPods", None) for role in ROLES}, nodes)
    every = [programme_of(suite_named("smoke"), seed, platform) for seed in range(200)]
    made = [one for one in every if any(of.strike.kind == kind for of in one.planned)]
    assert all(one.arsenal is not None for one in made)
    return [of for one in made for of in one.planned if of.strike.kind == kind]


def test_a_cut_has_records_for_one_more_try_and_no_other_strike_has() -> None:
    smoke = suite_named("smoke")
    usual, cut = smoke.draw(7), (*smoke.strikes, CLUSTER["driver-store-cut"])
    assert smoke.minutes(cut) == smoke.minutes(usual) + 6
    assert {smoke.minutes(smoke.draw(seed, ROLES)) for seed in range(50)} == {smoke.minutes(usual)}


@pytest.mark.parametrize("nodes", [object(), None])
@pytest.mark.parametrize("ours", [True, False])
def test_servers_are_struck_only_on_a_cluster_that_was_made_here(
    ours: bool, nodes: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere they are others' too; a cluster that was made here has its nodes, where its engine runs."""
    given: list[object] = []
    platform = Platform({}, cast("Nodes | None", nodes))

    def ask(suite: Suite, seed: int, of: Platform | None) -> Programme:
        given.append(of)
        return programme_of(suite, seed, of)

    deployed_on(monkeypatch, Record("ready", "image", 1) if ours else None)
    monkeypatch.setattr(f"{WHERE}Cluster", lambda *_: type("C", (), {"reader": None}))
    monkeypatch.setattr(f"{WHERE}Nodes.here", lambda *_: nodes)
    monkeypatch.setattr(f"{WHERE}Platform.of", lambda *of: platform if of[-1] is nodes else None)
    monkeypatch.setattr(f"{WHERE}programme_of", ask)
    run = type("R", (), {"run": lambda _, says: given.append(says)})()
    monkeypatch.setattr(f"{WHERE}ClusterRun.of", lambda *_: run)
    on_this_machine("smoke", 7, cast("Console", None))
    assert given[0] is (platform if ours else None)
    assert "3 executor-kill" in str(given[1])


def test_ha_is_refused_before_anything_is_touched_on_a_cluster_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    deployed_on(monkeypatch, None)
    monkeypatch.setattr(f"{WHERE}ClusterRun.of", lambda *_: pytest.fail("ran"))
    with pytest.raises(NoFaultError, match="SUITE=ha strikes servers and nodes"):
        on_this_machine("ha", 7, cast("Console", None))


def deployed_on(monkeypatch: pytest.MonkeyPatch, record: Record | None) -> None:
    """Have something deployed on a cluster; without a record it was not made here."""
    deployed = type("D", (), {"__getattr__": lambda *_: None})()
    found = type("F", (), {"target": lambda _: Target("p", {}), "deployed": deployed})()
    monkeypatch.setattr(f"{WHERE}Found.here", lambda _: found)
    monkeypatch.setattr(f"{WHERE}Record.read", lambda _: record)
    monkeypatch.setattr(f"{WHERE}Cluster", lambda *_: None)


@pytest.mark.parametrize("name", ["jobs", "", "SMOKE"])
def test_other_suites_are_refused_with_those_that_there_are(name: str) -> None:
    with pytest.raises(NoSuiteError, match="smoke, all"):
        suite_named(name)


@given(seed=SEEDS, shards=st.integers(1, 8))
def test_a_plan_holds_every_strike_once(seed: int, shards: int) -> None:
    strikes = SUITES["all"].draw(seed)
    planned = plan_of(seed, strikes, shards)
    assert planned == plan_of(seed, strikes, shards)
    assert sorted(map(repr, strikes)) == sorted(repr(one.strike) for one in planned)
    assert {(one.step, one.sink) for one in planned} == set(EARLY_STEPS)
    assert all(one.shard < shards for one in planned)


def test_ha_is_refused_on_a_cluster_that_lacks_a_copy_or_is_not_ours() -> None:
    """No strike is left out: what a profile does not have is no part of its claim."""
    ha = suite_named("ha")
    ha.refuse(MOST_NODES, MOST_COPIES)
    suite_named("smoke").refuse(0, {})
    for nodes, copies, why in [
        (0, {}, "SUITE=ha: brokers-rollout: no pod of this cluster is the broker"),
        (2, MOST_COPIES, "SUITE=ha: node-drain needs 3 nodes"),
        (3, MOST_COPIES | {OBJECT_STORE: 3}, "SUITE=ha: stores-rollout needs 4 copies of the object store"),
        (3, MOST_COPIES | {BROKER: 1}, "SUITE=ha: brokers-rollout needs 3 copies of the broker"),
        (3, MOST_COPIES | {OPERATOR: 1}, "SUITE=ha: operators-rollout needs 2 copies of the operator"),
    ]:
        with pytest.raises(NoFaultError, match=why):
            ha.refuse(nodes, copies)


@given(seed=SEEDS)
def test_ha_strikes_all_it_says_and_has_records_while_a_copy_is_away(seed: int) -> None:
    ha = suite_named("ha")
    platform = Platform({role: cast("ServerPods", None) for role in MOST_COPIES}, cast("Nodes", object()))
    made = programme_of(ha, seed, platform)
    assert {name_of(one.strike) for one in made.planned} == set(HA_SORTS)
    assert all(effects_of(one.strike.kind, one.strike.target) for one in made.planned), "the judge knows what shows it"
    assert (made.claim, made.services is not None, made.arsenal is not None) == (CLAIM_COPIES, True, True)
    of_copies = sum(one.strike.kind in (ROLLOUT, DISK_LOST, NODE_DRAIN) for one in made.planned)
    assert of_copies == 7
    assert ha.minutes([one.strike for one in made.planned]) == 2 * (5 * of_copies + 4 + 6 + 2)


def test_plans_differ_by_seed() -> None:
    assert len({tuple(plan_of(seed, SUITES["all"].strikes, 2)) for seed in range(10)}) > 5


LENGTHS = [pytest.param(one.minutes(one.draw(1)), marks=pytest.mark.deep) for one in SUITES.values()]


@pytest.mark.parametrize("minutes", [BASELINE_MINUTES, *LENGTHS])
def test_the_streams_of_a_run_can_be_made(minutes: int) -> None:
    subject = subject_of(7, minutes, portioned=True)
    records = list(subject.records())
    assert len(records) == subject.numbers.sent == minutes * 4_500
    assert subject.numbers.late_sent > 0
    assert 0 < subject.portion < subject.numbers.sent


def test_a_run_names_its_pipelines_after_itself() -> None:
    assert identity("20261120-193000-42", "uc") == "uc_2026112019300042"
    assert identity("20261120-193000-42/baseline", "uc") == "uc_2026112019300042"


def test_the_deployed_pipeline_is_found_in_the_stack() -> None:
    output = '{"platform": {"namespaces": {"pipelines": "p"}, "pipelines": {"user_counts": {"name": "user-counts"}}}}'
    assert Target.of(output) == Target("p", {"name": "user-counts"})


@pytest.mark.parametrize(
    "output",
    ["", "{}", '{"platform": null}', '{"platform": {"namespaces": {"pipelines": "p"}, "pipelines": {"x": {}}}}'],
)
def test_a_stack_without_the_pipeline_is_refused(output: str) -> None:
    with pytest.raises(NotDeployedError):
        Target.of(output)
