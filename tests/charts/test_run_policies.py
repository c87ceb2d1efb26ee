"""A run's services on a cluster whose network enforces policies: its pipelines call them, and nobody else's."""

from __future__ import annotations

from typing import Any, cast

import pytest

from infra.values import flows
from tests.charts.deployment import TEAM, WANTED, Deployment, named
from tests.charts.policies import Endpoint, Object, allowed
from tests.harness.adapters.cluster import KINDS, Cluster
from tests.harness.adapters.rendering import RUN_LABEL
from tests.harness.adapters.service_pod import NAME, PORT, ServicePod
from tests.harness.adapters.service_policies import policies

PIPELINES = WANTED[TEAM].pipelines_namespace


def values(there: Deployment) -> dict[str, Any]:
    """Return values as the deployed pipeline has them: without tables, as `user_counts` is."""
    (found,) = (one for one in there.values if one.get("name") == "user-counts")
    return found


def service(run: str) -> Endpoint:
    labels = ServicePod(cast("Cluster", None), f"{run}-payments", run).labels
    return Endpoint("service of a run", "10.244.2.1", PIPELINES, labels)


def executor(run: str) -> Endpoint:
    labels = {**named(TEAM).one(flows.EXECUTOR, "user-counts").labels, RUN_LABEL: run}
    return Endpoint("executor of a run", "10.244.2.2", PIPELINES, labels)


@pytest.fixture
def in_force() -> list[Object]:
    there = named(TEAM)
    made = policies("r-7", values(there))
    return [*there.policies, *({**one, "metadata": {**one["metadata"], "namespace": PIPELINES}} for one in made)]


def test_pipelines_of_a_run_call_its_services_and_no_others(in_force: list[Object]) -> None:
    assert allowed(in_force, executor("r-7"), service("r-7"), PORT)
    assert not allowed(in_force, executor("r-7"), service("r-7"), PORT + 1)
    assert not allowed(in_force, executor("r-8"), service("r-7"), PORT)
    assert not allowed(in_force, executor("r-7"), service("r-8"), PORT)
    assert not allowed(in_force, service("r-7"), executor("r-7"), 7079)


def test_a_service_of_a_run_asks_the_result_store_and_nothing_else(in_force: list[Object]) -> None:
    there = named(TEAM)
    assert allowed(in_force, service("r-7"), there.one(flows.RESULT_STORE), 5432)
    assert allowed(in_force, service("r-7"), there.one(flows.NAMES), 53, "UDP")
    for kind, port in ((flows.BROKER, 9092), (flows.OBJECT_STORE, 9000), (flows.API_SERVER, 443)):
        assert not allowed(in_force, service("r-7"), there.one(kind), port)


def test_without_them_a_service_of_a_run_is_closed() -> None:
    there = named(TEAM)
    assert not allowed(there.policies, executor("r-7"), service("r-7"), PORT)
    assert not allowed(there.policies, service("r-7"), there.one(flows.RESULT_STORE), 5432)


@pytest.mark.parametrize("deployed", [{}, {"networkPolicies": {"enabled": False}}], ids=["before them", "left out"])
def test_a_platform_without_policies_gets_none(deployed: dict[str, Any]) -> None:
    assert policies("r-7", deployed) == []


def test_they_go_with_the_run(in_force: list[Object]) -> None:
    made = [one for one in in_force if one["metadata"].get("labels", {}).get(RUN_LABEL) == "r-7"]
    assert len(made) == 2
    assert {(one["apiVersion"], one["kind"]) for one in made} <= {*KINDS}
    assert NAME in service("r-7").labels
