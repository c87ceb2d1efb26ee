"""Outages that a sender goes on through: a driver, a gateway or a leader that is away, a lagging partition; data."""

from __future__ import annotations

from tests.harness.platform_sorts import BROKER
from tests.harness.schedule import DRIVER, Strike

AWAY, HELD_BACK, LEADER_AWAY = "away", "held_back", "leader_away"
PARTITION, GATEWAY = "partition", "gateway"
LAGS = {
    "driver-away": Strike(AWAY, DRIVER),
    "partition-lag": Strike(HELD_BACK, PARTITION),
    "gateway-away": Strike(HELD_BACK, GATEWAY),
}
"""Only where the sender is unpaced (`--rate`): one that waits for the chain would wait for the end of either."""
LEADERS_AWAY = {"leader-away": Strike(LEADER_AWAY, BROKER)}
"""Likewise, and only where there are several brokers: of one, all partitions are away."""
IN_PODS = {**LAGS, **LEADERS_AWAY}
LASTING = (AWAY, HELD_BACK, LEADER_AWAY)
LENGTHS_S = (40.0,)
"""Ten minutes of an unpaced stream's time (`subject.SPEED`)."""
