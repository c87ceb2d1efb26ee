"""Stalls by name: who stands still (SIGSTOP) for a time that the seed draws, then goes on. And what Spark is asked."""

from __future__ import annotations

from collections.abc import Iterable

from tests.harness.platform_sorts import BROKER, KUBELET, OBJECT_STORE, OPERATOR, RESULT_STORE
from tests.harness.schedule import DECLARED, DRIVER, EXECUTOR, PYTHON_WORKER, Strike
from tests.harness.with_requests import STAGE_CANCEL, TASK_KILL

Steps = tuple[tuple[str, str | None], ...]
STALL = "stall"
EXECUTOR_JVM = "executor JVM"
NEIGHBOURS = "neighbours"
"""Every executor but the one that announced a step: who serves the blocks that it still has to fetch."""
READING: Steps = (("dedup_begun", None),)
"""Spark hands a shard its input, and the rest of it is with others."""
LENGTHS_S = (0.5, 3.0, 12.0, 40.0, 70.0, 150.0)
"""Below any time-out, below those of clients (10 s) and heartbeats (15 s), beyond them, beyond the patience of drivers
for a store (30 s), and beyond Spark's for an idle Python worker (120 s)."""
SHORT_S = (3.0, 12.0)
"""Those that a demo has time for; its time-out of heartbeats is 30 s."""

PIPELINE = {
    "executor-stall": Strike(STALL, EXECUTOR),
    "jvm-stall": Strike(STALL, EXECUTOR_JVM),
    "worker-stall": Strike(STALL, PYTHON_WORKER),
    "driver-stall": Strike(STALL, DRIVER),
}
"""The pipeline's own processes, on every stack."""
SERVERS = {"broker-stall": Strike(STALL, BROKER), "store-stall": Strike(STALL, OBJECT_STORE)}
BESIDE = {"neighbour-stall": Strike(STALL, NEIGHBOURS)}
"""While a shard that reads is held."""
RESULT_STORES = {"database-stall": Strike(STALL, RESULT_STORE)}
OPERATORS = {"operator-stall": Strike(STALL, OPERATOR)}
KUBELETS = {"kubelet-stall": Strike(STALL, KUBELET)}
"""Only where the nodes can be reached as machines, and one of them is not the control plane."""
UNFELT = (*OPERATORS.values(), *KUBELETS.values())
"""While they stand still, a pipeline reads on."""
EMBEDDED_STALLS = {**PIPELINE, **BESIDE, **SERVERS, **RESULT_STORES}
CLUSTER_STALLS = {**PIPELINE, **BESIDE, **SERVERS, **RESULT_STORES, **OPERATORS, **KUBELETS}

TASK, STAGE = "task", "stage"
REQUESTS = {"task-kill": Strike(TASK_KILL, TASK), "stage-cancel": Strike(STAGE_CANCEL, STAGE)}
"""What Spark ends by its own API, asked by a driver that takes requests (`with_requests`)."""
DELAYED = (STALL, TASK_KILL, STAGE_CANCEL)
"""Kinds that come within a step too: some time after the declaration, while shards read their input."""


def asks_spark(strikes: Iterable[Strike]) -> bool:
    """Whether one of the strikes needs a driver that takes requests."""
    return any(one in REQUESTS.values() for one in strikes)


def with_declaration(strike: Strike, steps: Steps) -> Steps:
    """The steps of a task, and as often the declaration, from which on shards read their input."""
    return (*steps, *((DECLARED, None),) * max(len(steps), 1)) if strike.kind in DELAYED else steps
