"""Outages that a sender goes on through: a driver or a gateway that is away, a partition that lags; data only."""

from __future__ import annotations

from tests.harness.schedule import DRIVER, Strike

AWAY, HELD_BACK = "away", "held_back"
PARTITION, GATEWAY = "partition", "gateway"
LAGS = {
    "driver-away": Strike(AWAY, DRIVER),
    "partition-lag": Strike(HELD_BACK, PARTITION),
    "gateway-away": Strike(HELD_BACK, GATEWAY),
}
"""Only where the sender is unpaced (`--rate`): one that waits for the chain would wait for the end of either."""
IN_PODS = {name: LAGS[name] for name in ("partition-lag", "gateway-away")}
"""The sender is the harness itself, wherever the pipeline runs. Nobody can forbid an operator to start a driver."""
LASTING = (AWAY, HELD_BACK)
LENGTHS_S = (40.0,)
"""Ten minutes of an unpaced stream's time (`subject.SPEED`)."""
