"""Which sorts of fault a cluster has, by name: of the pipeline's pods, and of what they stand on."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tests.harness.adapters.drivers import DELETE_GRACEFULLY, DELETE_NOW, SIGKILL
from tests.harness.cut_sorts import CLUSTER_CUTS, NODES_CUT, OF_NODES, ROLE_OF_CUT
from tests.harness.lag_sorts import LEADERS_AWAY
from tests.harness.platform_sorts import (
    BROKER,
    CONTROLLER,
    COPIES,
    DRAINS,
    LEADERS,
    MACHINES,
    OBJECT_STORE,
    OPERATOR,
    OPERATORS,
    PLATFORM,
    RESULT_STORE,
    RESULT_STORES,
    SERVERS,
    WORKERS,
)
from tests.harness.schedule import DRIVER, EVERY_EXECUTOR, Strike
from tests.harness.slow_disk_sorts import SERVER_DISKS
from tests.harness.stall_sorts import CLUSTER_STALLS, KUBELETS, REQUESTS
from tests.harness.stall_sorts import OPERATORS as STALLED_OPERATORS
from tests.harness.stall_sorts import RESULT_STORES as STALLED_RESULT_STORES
from tests.harness.stall_sorts import SERVERS as STALLED_SERVERS

ZOMBIE = "zombie"
PIPELINE = {
    "executor-kill": Strike(SIGKILL),
    "executors-kill": Strike(SIGKILL, EVERY_EXECUTOR),
    "executor-delete": Strike(DELETE_NOW),
    "executors-delete": Strike(DELETE_NOW, EVERY_EXECUTOR),
    "executor-evict": Strike(DELETE_GRACEFULLY),
    "driver-kill": Strike(SIGKILL, DRIVER),
    "driver-delete": Strike(DELETE_NOW, DRIVER),
}
"""On every cluster."""
ZOMBIES = {"zombie": Strike(ZOMBIE, DRIVER)}
"""Only where another node can take the driver in, and the nodes can be reached as machines."""
STALLED_ROLES = {**STALLED_SERVERS, **STALLED_RESULT_STORES, **STALLED_OPERATORS}
CLUSTER = {**PIPELINE, **ZOMBIES, **PLATFORM, **CLUSTER_STALLS, **REQUESTS, **CLUSTER_CUTS, **NODES_CUT, **SERVER_DISKS}
"""All of them. A name is what FAULTS= takes; what the embedded stack has too has one name."""
NODES_NEEDED = {
    **dict.fromkeys((*MACHINES, *CLUSTER_CUTS, *SERVER_DISKS), 1),
    **dict.fromkeys((*ZOMBIES, *WORKERS, *KUBELETS, *OF_NODES), 2),
    **dict.fromkeys((*DRAINS, *NODES_CUT), 3),
}
"""So many nodes have to be reached as machines."""
ROLE_NEEDED = {
    **{name: one.target for name, one in {**SERVERS, **LEADERS, **LEADERS_AWAY, **RESULT_STORES}.items()},
    **{name: one.target for name, one in STALLED_ROLES.items()},
    **{name: one.target for name, one in SERVER_DISKS.items()},
    **dict.fromkeys(OPERATORS, OPERATOR),
    **{name: one.target for name, one in COPIES.items()},
    **ROLE_OF_CUT,
}
"""The server that has to be there, as pods of ours."""
BROKERS_NEEDED = dict.fromkeys((*LEADERS, *LEADERS_AWAY), 3)
"""So many brokers there have to be."""
COPIES_NEEDED = {
    **{name: {one.target: 2} for name, one in COPIES.items()},
    # One that is a controller too is kept out of its quorum with an empty disk (docs/adr/0069).
    "broker-disk-lost": {BROKER: 3, CONTROLLER: 3},
    # MinIO loses sight of objects on three drives (docs/adr/0107).
    "store-disk-lost": {OBJECT_STORE: 4},
    "stores-rollout": {OBJECT_STORE: 4},
    "brokers-rollout": {BROKER: 3},
    "controllers-rollout": {CONTROLLER: 3},
    **{name: {BROKER: 3, OBJECT_STORE: 4} for name in (*DRAINS, *NODES_CUT)},
}
"""So many copies of servers there have to be."""
USUAL_NODES, USUAL_BROKERS, USUAL_ROLES = 2, 1, (BROKER, OBJECT_STORE, RESULT_STORE, OPERATOR)
"""What `make up PROFILE=chaos` gives."""
MOST_NODES, MOST_ROLES = 3, (*USUAL_ROLES, CONTROLLER)
MOST_COPIES = {BROKER: 3, CONTROLLER: 3, OBJECT_STORE: 4, OPERATOR: 2}
"""And `make up PROFILE=ha`, of the servers that it has several of."""


def lacking(
    name: str,
    nodes: int,
    roles: Collection[str],
    brokers: int = USUAL_BROKERS,
    *,
    copies: Mapping[str, int] | None = None,
) -> str | None:
    """Why a cluster does not have a sort, None when it has.

    Args:
        name: of the sort; one that there is on no cluster lacks nothing.
        nodes: how many can be reached as machines.
        roles: of its servers.
        brokers: how many are pods of ours.
        copies: how many pods each server has, by role; left out each has one.
    """
    profile = "ha" if name in COPIES_NEEDED else "chaos"
    if (needed := NODES_NEEDED.get(name, 0)) > nodes:
        return (
            f"{name} needs {needed} node{'s' * (needed > 1)} of a cluster that `make up` made here, and there is "
            f"{nodes or 'none'}: `make down`, then `make up PROFILE={profile}`"
        )
    role = ROLE_NEEDED.get(name)
    if role is not None and role not in roles:
        return f"{name}: no pod of this cluster is the {role} that the pipeline uses"
    if (needed := BROKERS_NEEDED.get(name, 0)) > brokers:
        return f"{name} needs {needed} brokers, and there is {brokers}: `make down`, then `make up PROFILE=brokers`"
    for role, needed in COPIES_NEEDED.get(name, {}).items():
        if needed > (there := (copies or {}).get(role, int(role in roles))):
            return (
                f"{name} needs {needed} copies of the {role}, and there {'is' if there == 1 else 'are'} {there}: "
                "`make down`, then `make up PROFILE=ha`"
            )
    return None


def sorts_on(
    nodes: int, roles: Collection[str], brokers: int = USUAL_BROKERS, *, copies: Mapping[str, int] | None = None
) -> Mapping[str, Strike]:
    """The sorts that a cluster has; for the arguments see `lacking`."""
    return {name: one for name, one in CLUSTER.items() if lacking(name, nodes, roles, brokers, copies=copies) is None}
