"""Makes the slow disks of the embedded stack."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from infra.embedded.postgres import PostgresServer
from infra.embedded.stack import Endpoints
from tests.harness.adapters.disk_probes import BrokerProbe, DatabaseProbe, Probe, StoreProbe
from tests.harness.adapters.slow_disk import SlowDisk
from tests.harness.adapters.supervised import SupervisedDrivers
from tests.harness.faults.fault import Fault
from tests.harness.faults.healing import Healing
from tests.harness.faults.healing_arsenal import Makers
from tests.harness.faults.server import Restartable
from tests.harness.faults.slow_disk import SlowedServer
from tests.harness.platform_sorts import BROKER, OBJECT_STORE, RESULT_STORE
from tests.harness.slow_disk_sorts import SLOW_DISK


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


def slow_disks_of(strace: Path, log: Path, endpoints: Endpoints, database: PostgresServer | None) -> SlowDisks:
    """Those of a stack; `log` and `strace` as in SlowDisks."""
    probes: dict[str, Probe] = {BROKER: BrokerProbe(endpoints.kafka_bootstrap), OBJECT_STORE: StoreProbe(endpoints)}
    if database is not None:
        probes[RESULT_STORE] = DatabaseProbe(database)
    return SlowDisks(strace, log, probes)


def slow_disks(
    disks: SlowDisks, drivers: SupervisedDrivers, servers: Mapping[str, Restartable], *, healing: Healing,
    ended: threading.Event, held: Callable[[Fault], Fault],
) -> Makers:  # fmt: skip
    """Every one.

    Args:
        disks: what they need.
        drivers: whose pipeline uses the servers.
        servers: by role.
        healing: has a server let go whatever happens.
        ended: ends waits early.
        held: has who announced a step held until the strike came.
    """

    def make(role: str, server: Restartable, probe: Probe) -> Fault:
        disk = SlowDisk(disks.strace, disks.log, by_name=role == BROKER)
        made = SlowedServer(drivers, server, role, disk, probe, healing=healing, ended=ended)
        # Announced and committed are a moment apart.
        return held(made) if role == RESULT_STORE else made

    return {
        (SLOW_DISK, role): partial(make, role, servers[role], probe)
        for role, probe in disks.probes.items()
        if role in servers
    }
