"""Real servers whose disk is slow: writes wait for it meanwhile, are as fast as before afterwards, and none is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka.admin import AdminClient

from infra.embedded.postgres import PostgresServer
from infra.embedded.process import descendants
from infra.embedded.server import Server
from infra.embedded.stack import EmbeddedStack
from infra.toolchain.command import ToolchainError
from infra.toolchain.strace import find_strace, find_tracers
from tests.harness.adapters.disk_probes import OBJECT, PLACE, BrokerProbe, StoreProbe
from tests.harness.faults.healing import Healing
from tests.harness.faults.slow_disk_arsenal import slow_disks, slow_disks_of
from tests.harness.faults.slowable import SlowableServer
from tests.harness.schedule import DECLARED, PlannedFault
from tests.harness.slow_disk_sorts import SERVER_DISKS
from tests.unit.harness.sleepers import soon

pytestmark = pytest.mark.stack
PLANNED_S = 2.0


class Drivers:
    """Whom nobody starts."""

    under: str | None = None


@pytest.fixture
def slowed(stack: EmbeddedStack, database: PostgresServer, tmp_path: Path) -> Callable[[str], dict[str, Any]]:
    """Return a function that slows the disk of a server as a campaign does, and returns the evidence."""
    try:
        strace = find_strace()
    except ToolchainError as why:
        pytest.skip(str(why))
    servers: dict[str, Server] = {
        "broker-slow-disk": stack.kafka,
        "store-slow-disk": stack.object_store,
        "database-slow-disk": database,
    }
    disks = slow_disks_of(strace, tmp_path / "strace.log", stack.endpoints, database)

    def slow(name: str) -> dict[str, Any]:
        healing, strike, server = Healing(print), SERVER_DISKS[name], servers[name]
        roles = {SERVER_DISKS[one].target: SlowableServer(there) for one, there in servers.items()}
        makers = slow_disks(disks, Drivers(), roles, healing=healing)
        fault = makers[strike.kind, strike.target]()
        family = [psutil.Process(server.pid), *descendants(server.pid)]
        fault.prepare(PlannedFault(1, DECLARED, None, 0, strike, planned_s=PLANNED_S))
        fault.arm()
        try:
            ((who, _),) = fault.strike({})
            fault.endure()
            fault.heal()
        finally:
            healing.close(torn_down=False)
        assert fault.after() == [who]
        assert fault.landed(), fault.evidence()
        assert all(find_tracers(one.pid) <= {0} for one in family)
        return fault.evidence()

    return slow


@pytest.mark.parametrize("name", SERVER_DISKS)
def test_a_servers_disk_is_slow_and_then_as_fast_as_before(slowed: Callable[[str], dict[str, Any]], name: str) -> None:
    told = slowed(name)
    assert told["slowed_s"] >= PLANNED_S
    took, delay_ms = told["latency_ms"], told["delay_ms"]
    assert took["before"] < delay_ms <= took["fastest"] <= took["during"]
    assert took["after"] < delay_ms


def test_what_a_slowed_store_acknowledged_is_there_until_it_is_deleted(
    slowed: Callable[[str], dict[str, Any]], stack: EmbeddedStack
) -> None:
    slowed("store-slow-disk")
    client = stack.object_store.client()
    assert client.stat_object(PLACE, OBJECT).size == 1024
    probe = StoreProbe(stack.endpoints)
    for _ in range(2):
        probe.forget()
        assert not client.bucket_exists(PLACE)


def test_a_record_goes_to_each_broker_until_the_topic_is_deleted(stack: EmbeddedStack) -> None:
    bootstrap = stack.endpoints.kafka_bootstrap
    probe, admin = BrokerProbe(bootstrap), AdminClient({"bootstrap.servers": bootstrap})
    probe()
    found = admin.list_topics(timeout=10)
    assert len(found.topics[PLACE].partitions) == len(found.brokers)
    for _ in range(2):
        probe.forget()
        soon("its deletion", lambda: PLACE not in admin.list_topics(timeout=10).topics)
