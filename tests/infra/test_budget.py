"""The small profiles leave the control plane its share of two cores."""

from __future__ import annotations

import pytest

from infra.components import kafka, object_store, result_store
from infra.settings import Settings
from tests.charts.deployment import releases
from tests.charts.render import Object, render
from tests.infra.platform import settings

BUDGET_MILLI = 1000  # of 2000; the control plane asks for 850


def milli(quantity: str) -> int:
    """Return a quantity of CPU in thousandths of a core."""
    return int(quantity[:-1]) if quantity.endswith("m") else round(float(quantity) * 1000)


def asked(one: Object) -> int:
    """Return the CPU requests of all pods of an object, in thousandths of a core."""
    spec: Object = one.get("spec", {})
    if one["kind"] == "SparkApplication":
        executors = int(spec["executor"]["instances"]) * milli(spec["executor"]["coreRequest"])
        return executors + milli(spec["driver"]["coreRequest"])
    if "template" not in spec:
        return 0
    containers = spec["template"]["spec"]["containers"]
    return int(spec.get("replicas", 1)) * sum(milli(each["resources"]["requests"]["cpu"]) for each in containers)


def requests(wanted: Settings) -> dict[str, int]:
    """Return those of each release, as its chart renders them, the job that makes topics included."""
    return {
        release: sum(map(asked, render(chart, values.to_helm(), release, namespace)))
        for release, chart, namespace, values in releases(wanted)
    }


@pytest.mark.parametrize("profile", ["laptop", "ci", "chaos", "brokers"])
def test_requests_of_a_small_profile_fit_beside_the_control_plane(profile: str) -> None:
    found = requests(settings(profile=profile))
    assert len(found) == 6
    assert 0 < sum(found.values()) <= BUDGET_MILLI, found


def test_the_sum_counts_every_executor_and_controller() -> None:
    two = requests(settings(pipelines={"user_counts": {"executors": {"count": 2, "cpu_request": "100m"}}}))
    five = requests(settings(pipelines={"user_counts": {"executors": {"count": 5, "cpu_request": "0.1"}}}))
    assert five["user-counts"] - two["user-counts"] == 300
    assert requests(settings(kafka={"controllers": 3}))["kafka"] > requests(settings())["kafka"]


@pytest.mark.parametrize("delete", [True, False])
def test_volumes_are_kept_unless_their_deletion_is_asked_for(delete: bool) -> None:
    wanted = settings(storage={"delete_volumes": delete})
    stores = (kafka.values(wanted), object_store.values(wanted), result_store.values(wanted))
    assert [one.storage.retain for one in stores if one is not None] == [not delete] * 3
