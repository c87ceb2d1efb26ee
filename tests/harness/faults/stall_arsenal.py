"""Makes the stalls of the embedded stack."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tests.harness.adapters.events import Watch
from tests.harness.adapters.supervised import SupervisedDrivers
from tests.harness.faults.fault import Fault
from tests.harness.faults.healing import Healing
from tests.harness.faults.healing_arsenal import Makers
from tests.harness.faults.server import Restartable
from tests.harness.faults.stalls import StalledDriver, StalledExecutor, StalledNeighbours, StalledServer, StalledWorker
from tests.harness.platform_sorts import RESULT_STORE
from tests.harness.schedule import DRIVER, EXECUTOR, PYTHON_WORKER
from tests.harness.stall_sorts import EXECUTOR_JVM, NEIGHBOURS, STALL

HEARTBEATS_S = 30.0
"""The library's time-out of heartbeats."""
IDLE_S = 120.0
"""Its idle time-out of Python workers."""


def executor_stalls(drivers: SupervisedDrivers, healing: Healing, time_out_s: float) -> Makers:
    """Those of executors, which need nothing else."""
    owed: dict[str, Any] = {"time_out_s": time_out_s, "healing": healing}
    return {
        (STALL, EXECUTOR): partial(StalledExecutor, drivers, alone=False, **owed),
        (STALL, EXECUTOR_JVM): partial(StalledExecutor, drivers, alone=True, **owed),
    }


def stalls(
    drivers: SupervisedDrivers,
    watch: Watch,
    servers: Mapping[str, Restartable],
    healing: Healing,
    *,
    time_out_s: float,
    held: Callable[[Fault], Fault],
) -> Makers:
    """Every one.

    Args:
        drivers: and their executors and workers.
        watch: what they announce.
        servers: by role.
        healing: continues whoever stands still.
        time_out_s: of heartbeats.
        held: has who announced a step held until the strike came.
    """
    owed: dict[str, Any] = {"time_out_s": time_out_s, "healing": healing}

    def of_server(role: str, server: Restartable) -> Fault:
        made = StalledServer(drivers, server, role, **owed)
        return held(made) if role == RESULT_STORE else made

    return {
        **executor_stalls(drivers, healing, time_out_s),
        (STALL, NEIGHBOURS): lambda: held(StalledNeighbours(drivers, alone=False, **owed)),
        (STALL, PYTHON_WORKER): partial(StalledWorker, drivers, watch, **{**owed, "time_out_s": IDLE_S}),
        (STALL, DRIVER): partial(StalledDriver, drivers, watch, **owed),
        **{(STALL, role): partial(of_server, role, server) for role, server in servers.items()},
    }
