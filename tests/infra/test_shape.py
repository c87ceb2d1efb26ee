"""Settings that would break a quorum which is there are refused while nothing is changed."""

from __future__ import annotations

import pytest

from infra.cluster.api import ApiError
from infra.components import kafka
from infra.components.shape import require_same
from infra.settings import Settings
from tests.infra.platform import settings
from tests.infra.there import LAPTOP, There, refusals, stateful_sets

THREE = {"nodes": 3, "controllers": 3, "storage_size": "4Gi"}
APART = {f"data-{name}-{number}": "4Gi" for name in ("kafka", "kafka-controller") for number in range(3)}


def made(wanted: Settings) -> dict[str, dict[str, object]]:
    values = kafka.values(wanted)
    assert values is not None
    return stateful_sets("kafka", values)


def refused(there: There, **config: object) -> list[str]:
    lines = refusals(there, **config)
    assert all("set it back, or back up" in line for line in lines)
    return [line.split(";")[0] for line in lines]


def test_the_same_settings_and_an_empty_cluster_are_free() -> None:
    require_same(settings(), There(LAPTOP, made(settings())).find)
    require_same(settings(profile="production"), There().find)
    apart = settings(kafka=THREE)
    require_same(apart, There(APART | LAPTOP, made(apart)).find)


@pytest.mark.parametrize("gone", [False, True], ids=["running", "volumes alone"])
def test_another_quorum_is_refused_by_name(*, gone: bool) -> None:
    """Also where a destroy left the volumes and nothing else."""
    one = There(LAPTOP, {} if gone else made(settings()))
    assert refused(one, kafka={"nodes": 3}) == ["kafka.nodes: the quorum was formatted for 1, got 3"]
    assert refused(one, kafka={"controllers": 3}) == ["kafka.controllers: the quorum was formatted for 0, got 3"]
    three = There(APART | LAPTOP, {} if gone else made(settings(kafka=THREE)))
    assert [line.partition(":")[0] for line in refused(three)] == ["kafka.nodes", "kafka.controllers"]


def test_another_number_of_drives_is_refused_by_name() -> None:
    one = There(LAPTOP, made(settings()))
    assert refused(one, object_store={"nodes": 4}) == ["object_store.nodes: the drives were formatted for 1, got 4"]


def test_a_broker_that_is_stopped_is_no_other_quorum() -> None:
    stopped = made(settings())
    stopped["kafka"]["replicas"] = 0
    require_same(settings(), There(LAPTOP, stopped).find)
    assert refused(There(LAPTOP, stopped), kafka={"nodes": 3})


def test_a_deployment_that_was_interrupted_before_its_controllers_goes_on() -> None:
    wanted = settings(kafka=THREE)
    brokers = {"kafka": made(wanted)["kafka"]}
    require_same(wanted, There({}, brokers).find)


def test_what_the_user_brings_is_not_compared() -> None:
    external = settings(kafka={"external": "broker.example:9092", "nodes": 3})
    require_same(external, There(LAPTOP, made(settings())).find)


def test_without_an_answer_nothing_is_taken_to_be_free() -> None:
    with pytest.raises(ApiError, match="403"):
        require_same(settings(), There(status=403).find)
