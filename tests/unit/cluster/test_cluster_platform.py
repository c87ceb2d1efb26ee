"""Which faults a cluster has, by what it consists of; every one of them is named."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import pytest

from tests.harness import mixture
from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.events import Watch
from tests.harness.adapters.leaders import Leaders
from tests.harness.adapters.nodes import Nodes
from tests.harness.adapters.server_pods import ROLES, ServerPods
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.cluster_sorts import MOST_COPIES
from tests.harness.faults.cluster_leader import LeadingBroker
from tests.harness.faults.cluster_platform import Platform
from tests.harness.faults.cluster_server import EndedServerPod
from tests.harness.faults.cluster_stop import StoppedServerPod
from tests.harness.faults.healing import Healing
from tests.harness.platform_sorts import (
    BROKER,
    COPIES,
    DNS,
    DRAINS,
    LEADERS,
    MACHINES,
    MEMORY,
    OPERATOR,
    OPERATORS,
    PLATFORM,
    RESULT_STORE,
    RESULT_STORES,
    SERVERS,
    WORKERS,
)
from tests.harness.schedule import Strike
from tests.unit.cluster.fake_platform import FakePlatform


class FakeDrivers:
    """Drivers that nobody starts."""

    cluster = FakePlatform()


def faults(*without: str, nodes: bool = True, brokers: int = 3) -> dict[tuple[str, str], object]:
    """The faults of a platform that lacks these servers."""
    cluster = cast("Cluster", FakePlatform())
    counts = MOST_COPIES | {BROKER: brokers}
    servers = {role: ServerPods.of(cluster, role, counts.get(role, 1)) for role in ROLES if role not in without}
    platform = Platform(servers, cast("Nodes", FakePlatform()) if nodes else None)
    makers = platform.makers(
        cast("SupervisedPods", FakeDrivers()),
        cast("Watch", None),
        Healing(lambda _: None),
        Leaders("b:1", "p", "events_p", 2, lambda _: None),
    )
    return {strike: make() for strike, make in makers.items()}


def keys(strikes: Iterable[Strike]) -> set[tuple[str, str]]:
    return {(one.kind, one.target) for one in strikes}


def test_every_fault_is_named_and_every_name_is_a_fault() -> None:
    assert set(faults()) == keys(PLATFORM.values())


@pytest.mark.parametrize(
    ("lacking", "sorts"),
    [
        ((OPERATOR,), OPERATORS),
        ((RESULT_STORE,), RESULT_STORES),
        (("controller",), {}),
        (("broker", "object store"), {**SERVERS, **LEADERS}),
    ],
)
def test_a_server_that_is_not_there_has_no_fault(lacking: tuple[str, ...], sorts: dict[str, Strike]) -> None:
    copied = [one for one in COPIES.values() if one.target in lacking]
    assert set(faults()) - set(faults(*lacking)) == keys([*sorts.values(), *copied])


def test_nodes_that_cannot_be_reached_have_no_fault() -> None:
    left = faults("API server", DNS, nodes=False)
    assert set(faults()) - set(left) == keys([*MACHINES.values(), *WORKERS.values(), *DRAINS.values()])
    assert keys(MEMORY.values()) < set(left)


def test_one_broker_has_no_other_that_could_lead() -> None:
    copied = [one for one in COPIES.values() if one.target == BROKER]
    assert set(faults()) - set(faults(brokers=1)) == keys([*LEADERS.values(), *copied])


@pytest.mark.parametrize(("brokers", "by_leadership"), [(3, True), (1, False)])
def test_of_several_brokers_one_is_struck_for_what_it_leads(brokers: int, by_leadership: bool) -> None:
    for (_, target), one in faults(brokers=brokers).items():
        if isinstance(one, EndedServerPod | StoppedServerPod):
            chosen_by = getattr(one.picked.pick, "__self__", None)
            assert isinstance(chosen_by, LeadingBroker) is (by_leadership and target == BROKER)


def test_of_two_on_one_volume_only_a_broker_is_deleted_without_any_grace() -> None:
    """Its folder is locked; a store's is not."""
    graces = {
        target: one._grace_s
        for (kind, target), one in faults().items()
        if kind == "pod_delete_now" and isinstance(one, EndedServerPod)
    }
    assert graces == {"broker": 0, "object store": 1, "result store": 1, "operator": 0}


def test_names_of_both_stacks_are_the_same_fault() -> None:
    shared = set(PLATFORM) & set(mixture.SORTS)
    assert {name: PLATFORM[name] for name in shared} == {name: mixture.SORTS[name] for name in shared}
    assert {"broker-kill", "broker-stop", "store-kill", "store-stop"} <= shared
