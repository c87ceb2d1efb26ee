"""Outages that a sender goes on through: a driver that is away, a partition that lags; data and pure functions only."""

from __future__ import annotations

from tests.harness.schedule import DRIVER, Strike

AWAY, HELD_BACK = "away", "held_back"
PARTITION = "partition"
LAGS = {"driver-away": Strike(AWAY, DRIVER), "partition-lag": Strike(HELD_BACK, PARTITION)}
"""Only where the sender is unpaced (`--rate`): one that waits for the chain would wait for the end of either."""
IN_PODS = {"partition-lag": LAGS["partition-lag"]}
"""The sender is the harness itself, wherever the pipeline runs. Nobody can forbid an operator to start a driver."""
LASTING = (AWAY, HELD_BACK)
LENGTHS_S = (40.0,)
"""Ten minutes of an unpaced stream's time (`subject.SPEED`)."""
