"""Looks at processes more often than a run does, which has time: a test waits for the next look."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

LOOKS = {
    "faults.fault.POLL_S": 0.02,
    "faults.stall.POLL_S": 0.02,
    "faults.campaign.POLL_S": 0.02,
    "faults.worker.POLL_S": 0.02,
    "faults.slow_disk.EVERY_S": 0.02,
    "faults.cluster_zombie.POLL_S": 0.05,
    "faults.cluster_leader_away.POLL_S": 0.02,
    "faults.cluster_memory.LOOK_S": 0.02,
    "adapters.events.ALIVE_S": 0.05,
    "adapters.supervised.POLL_S": 0.01,
    "adapters.supervised_pods.AGAIN_S": 0.05,
    "adapters.pod_log.AGAIN_S": 0.05,
    "adapters.pod_hold.AGAIN_S": 0.02,
    "adapters.cluster.POLL_S": 0.05,
}
"""Names in the harness, and seconds."""


@pytest.fixture(scope="package", autouse=True)
def hasty() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, seconds in LOOKS.items():
            patch.setattr(f"tests.harness.{name}", seconds)
        yield
