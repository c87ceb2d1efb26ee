"""Makes the stalls of the cluster."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.harness.adapters.events import Watch
from tests.harness.adapters.held_pod import DRIVER as HELD_DRIVER
from tests.harness.adapters.held_pod import EXECUTOR as HELD_EXECUTOR
from tests.harness.adapters.held_pod import EXECUTOR_JVM as HELD_JVM
from tests.harness.adapters.held_pod import PYTHON_WORKER as HELD_WORKER
from tests.harness.adapters.held_pod import server_held
from tests.harness.adapters.leaders import Leaders
from tests.harness.adapters.pod_hold import PodHold
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.faults.cluster_kubelet import StalledKubelet
from tests.harness.faults.cluster_platform import Platform
from tests.harness.faults.cluster_stalls import (
    StalledDriverPod,
    StalledExecutorPod,
    StalledNeighbourPod,
    StalledServerPod,
    StalledWorkerPod,
)
from tests.harness.faults.healing import Healing
from tests.harness.faults.healing_arsenal import Makers
from tests.harness.faults.stall_arsenal import IDLE_S
from tests.harness.faults.transaction import WhileHeld
from tests.harness.platform_sorts import BROKER, KUBELET, OBJECT_STORE, OPERATOR, RESULT_STORE
from tests.harness.schedule import DRIVER, EXECUTOR, PYTHON_WORKER
from tests.harness.stall_sorts import EXECUTOR_JVM, NEIGHBOURS, STALL

SETTLE_S = 20.0
"""A pod that was given up is seen to be deleted, and the next one to run, within so long."""


def cluster_stalls(
    drivers: SupervisedPods,
    watch: Watch,
    platform: Platform,
    healing: Healing,
    *,
    time_out_s: float,
    leaders: Leaders | None = None,
) -> Makers:
    """Every one that there is here; see `stall_arsenal.stalls`. Of several brokers, `leaders` tells whom."""
    cluster = drivers.cluster
    owed: dict[str, Any] = {"time_out_s": time_out_s, "settle_s": SETTLE_S, "healing": healing}
    idle = {**owed, "time_out_s": IDLE_S}
    makers: Makers = {
        (STALL, EXECUTOR): partial(StalledExecutorPod, drivers, cluster, HELD_EXECUTOR, **owed),
        (STALL, EXECUTOR_JVM): partial(StalledExecutorPod, drivers, cluster, HELD_JVM, role="executor", **owed),
        (STALL, NEIGHBOURS): lambda: WhileHeld(
            StalledNeighbourPod(drivers, cluster, HELD_EXECUTOR, **owed), PodHold(cluster, [drivers.log]), healing
        ),
        (STALL, PYTHON_WORKER): partial(StalledWorkerPod, drivers, cluster, HELD_WORKER, watch=watch, **idle),
        (STALL, DRIVER): partial(StalledDriverPod, drivers, cluster, HELD_DRIVER, watch=watch, **owed),
    }
    for role in (BROKER, OBJECT_STORE, RESULT_STORE, OPERATOR):
        if (server := platform.servers.get(role)) is not None:
            makers[STALL, role] = partial(
                StalledServerPod,
                drivers,
                server.cluster,
                server_held(role, server.program),
                server=server,
                pick=platform.picks(leaders).get(role),
                **owed,
            )
    if platform.nodes is not None:
        makers[STALL, KUBELET] = partial(StalledKubelet, drivers, platform.nodes, cluster, **owed)
    return makers
