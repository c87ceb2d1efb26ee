"""Makes the slow disks of either stack."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from infra.embedded.stack import Endpoints
from infra.toolchain.command import ToolchainError
from infra.toolchain.strace import find_strace
from tests.harness.adapters.container import find_first
from tests.harness.adapters.disk_probes import BrokerProbe, Connectable, DatabaseProbe, Probe, StoreProbe
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.server_pods import ServerPods
from tests.harness.adapters.slow_disk import SlowDisk
from tests.harness.faults.fault import Fault
from tests.harness.faults.healing import Healing
from tests.harness.faults.healing_arsenal import Makers
from tests.harness.faults.slow_disk import SlowedServer, Supervised
from tests.harness.faults.slowable import Slowable
from tests.harness.platform_sorts import BROKER, OBJECT_STORE, RESULT_STORE
from tests.harness.slow_disk_sorts import SERVER_DISKS, SLOW_DISK


@dataclass(frozen=True)
class SlowDisks:
    """What slow disks need beside the servers.

    Attributes:
        strace: the program.
        log: where it says what goes wrong.
        probes: by the role of the server, what writes to it.
    """

    strace: Path
    log: Path
    probes: Mapping[str, Probe]


def slow_disks_of(strace: Path, log: Path, endpoints: Endpoints, database: Connectable | None) -> SlowDisks:
    """Those of a stack; `log` and `strace` as in SlowDisks."""
    probes: dict[str, Probe] = {BROKER: BrokerProbe(endpoints.kafka_bootstrap), OBJECT_STORE: StoreProbe(endpoints)}
    if database is not None:
        probes[RESULT_STORE] = DatabaseProbe(database)
    return SlowDisks(strace, log, probes)


def strace_beside(servers: Mapping[str, ServerPods]) -> Path:
    """strace, on the machine that servers in pods are processes of; by role.

    Raises:
        ToolchainError: there is none, or this machine is another one.
        ApiError, UnreachableError: the cluster does not tell of its pods.
    """
    for role in {one.target for one in SERVER_DISKS.values()} & servers.keys():
        for pod in servers[role].ready():
            try:
                find_first(pod.container_id)
            except NoProcessError as error:
                raise ToolchainError(f"{pod.name}: {error}: disks are slowed where the engine runs") from error
    return find_strace()


def slow_disks(
    disks: SlowDisks,
    drivers: Supervised,
    servers: Mapping[str, Slowable],
    *,
    healing: Healing,
    held: Callable[[Fault], Fault] = lambda made: made,
) -> Makers:
    """Every one.

    Args:
        disks: what they need.
        drivers: whose pipeline uses the servers.
        servers: by role.
        healing: has a server let go whatever happens.
        held: has who announced a step held until the strike came; left out nobody is.
    """

    def make(role: str, server: Slowable, probe: Probe) -> Fault:
        disk = SlowDisk(disks.strace, disks.log, by_name=role == BROKER)
        made = SlowedServer(drivers, server, role, disk, probe, healing=healing)
        # Announced and committed are a moment apart.
        return held(made) if role == RESULT_STORE else made

    return {
        (SLOW_DISK, role): partial(make, role, servers[role], probe)
        for role, probe in disks.probes.items()
        if role in servers
    }
