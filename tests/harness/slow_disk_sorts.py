"""Slow disks by name: every file-system call of a server takes longer for a while, and its sockets are as before."""

from __future__ import annotations

from tests.harness.platform_sorts import BROKER, OBJECT_STORE, RESULT_STORE
from tests.harness.schedule import Strike

SLOW_DISK, SLOW_DISKS = "slow_disk", "slow-disks"
"""The kind of every sort here, and the word by which FAULTS= takes them all."""
SERVER_DISKS = {
    "broker-slow-disk": Strike(SLOW_DISK, BROKER),
    "store-slow-disk": Strike(SLOW_DISK, OBJECT_STORE),
    "database-slow-disk": Strike(SLOW_DISK, RESULT_STORE),
}
"""On both stacks."""
DELAYS_MS = (50, 100)
"""By so much every call takes longer. A put of the object store makes some sixteen: 1.5 s with the second, well within
the time that clients wait (10 s), which is for `store-slow` and the stalls to outlast."""
