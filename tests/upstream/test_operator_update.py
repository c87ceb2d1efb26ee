"""Spark operator 2.5.2: a changed SparkApplication is invalidated, and never submitted again (ADR 0013)."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.cluster.access import CHECKOUT, load_access
from infra.cluster.state import state_directory
from tests.harness.adapters.cluster import Cluster, label_of, state_of
from tests.harness.adapters.rendering import Chart, of_run, values_for
from tests.harness.deployed import Target

NAME = "upstream-update"
# A driver without a Spark session: nothing of this project's own takes part.
IDLE = "import time\nwhile True: time.sleep(1)\n"
STARTS_S, TURNS_S = 180.0, 120.0
# A new driver's pod is there some 10 s after its submission; the operator looks at every object again after 30 s.
WATCHED_S = 90.0


@pytest.fixture
def running() -> Iterator[Cluster]:
    """Return the cluster, with an application of this name whose driver runs."""
    state = state_directory()
    environment = state.process_environment()
    deployed = load_access(environment, state.root)
    target = Target.of(deployed.pulumi("stack", "output", "--json"))
    cluster = Cluster(deployed.kubeconfig, deployed.context, target.namespace)
    helm = shutil.which("helm", path=environment["PATH"])
    assert helm is not None, "run `make tools`"
    settings = {**target.values["settings"], "pipeline": "upstream_update", "topic": "events_upstream_update"}
    values = values_for(target.values, NAME, settings, module="idle", extra_files={"idle.py": IDLE})
    chart = Chart(Path(helm), CHECKOUT / "charts" / "streaming-pipeline")
    try:
        cluster.apply(of_run(chart.render(values, cluster.namespace), NAME, cluster.namespace))
        _reaches(cluster, "RUNNING", STARTS_S)
        yield cluster
    finally:
        cluster.delete_labelled(label_of(NAME))


def _reaches(cluster: Cluster, state: str, timeout_s: float) -> None:
    cluster.wait_for(
        f"state {state} of {NAME}", lambda: state_of(cluster.application(NAME)) == state, timeout_s,
        lambda: cluster.application(NAME),
    )  # fmt: skip


def _drivers(cluster: Cluster) -> list[dict[str, Any]]:
    return cluster.pods(f"{label_of(NAME)},spark-role=driver")


def test_a_changed_application_stays_pending_without_a_driver(running: Cluster) -> None:
    """When this fails the operator was repaired: replacing the object (infra/components/release.py) can go."""
    (before,) = [one["metadata"]["uid"] for one in _drivers(running)]
    running.patch_application(NAME, {"spec": {"sparkConf": {"spark.effectively-once.changed": "yes"}}})
    _reaches(running, "PENDING_RERUN", TURNS_S)
    seen: set[str] = set()
    deadline = time.monotonic() + WATCHED_S
    while time.monotonic() < deadline:
        seen.add(state_of(running.application(NAME)))
        seen |= {one["metadata"]["uid"] for one in _drivers(running)} - {before}
        time.sleep(1)
    assert seen == {"PENDING_RERUN"}, os.linesep.join(sorted(seen))
