"""The small profiles leave the control plane its share of two cores."""

from __future__ import annotations

import pytest

from infra.components import history_server, kafka, object_store, result_store, spark_operator, streaming_pipeline
from infra.settings import Settings
from tests.infra.platform import settings

BUDGET_MILLI = 1000  # of 2000; the control plane asks for 850


def milli(quantity: str) -> int:
    """Return a quantity of CPU in thousandths of a core."""
    return int(quantity[:-1]) if quantity.endswith("m") else round(float(quantity) * 1000)


def requests(wanted: Settings) -> dict[str, int]:
    """Return the CPU requests of all pods that can be there at a time, the job that makes topics included."""
    broker, store, results = kafka.values(wanted), object_store.values(wanted), result_store.values(wanted)
    operator, history = spark_operator.values(wanted), history_server.values(wanted)
    assert broker and store and results and operator and history
    found = {
        "kafka": broker.nodes * milli(broker.resources.cpu_request)
        + broker.controllers * milli(broker.controller_resources.cpu_request),
        "minio": milli(store.resources.cpu_request),
        "postgres": milli(results.resources.cpu_request),
        "spark-operator": operator.replicas * milli(operator.resources.cpu_request),
        "history-server": milli(history.resources.cpu_request),
    }
    for name, pipeline in wanted.pipelines.items():
        values = streaming_pipeline.values(wanted, pipeline)
        found[name] = (
            milli(values.driver.cpu_request)
            + values.executors.count * milli(values.executors.cpu_request)
            + milli(values.create_resources.cpu_request)
        )
    return found


@pytest.mark.parametrize("profile", ["laptop", "ci", "chaos", "brokers"])
def test_requests_of_a_small_profile_fit_beside_the_control_plane(profile: str) -> None:
    found = requests(settings(profile=profile))
    assert len(found) == 6
    assert 0 < sum(found.values()) <= BUDGET_MILLI, found


def test_the_sum_counts_every_executor_and_controller() -> None:
    two = requests(settings(pipelines={"user_counts": {"executors": {"count": 2, "cpu_request": "100m"}}}))
    five = requests(settings(pipelines={"user_counts": {"executors": {"count": 5, "cpu_request": "0.1"}}}))
    assert five["user_counts"] - two["user_counts"] == 300
    assert requests(settings(kafka={"controllers": 3}))["kafka"] > requests(settings())["kafka"]


@pytest.mark.parametrize("delete", [True, False])
def test_volumes_are_kept_unless_their_deletion_is_asked_for(delete: bool) -> None:
    wanted = settings(storage={"delete_volumes": delete})
    stores = (kafka.values(wanted), object_store.values(wanted), result_store.values(wanted))
    assert [one.storage.retain for one in stores if one is not None] == [not delete] * 3
