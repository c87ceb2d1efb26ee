"""How a campaign's epochs are spread over tasks: as in life, where a shard's input comes in many blocks from afar."""

from __future__ import annotations

PARTITIONS, EXECUTORS, HEAP_MIB = 8, 4, 512
"""Of the input topic, each of which is a map task; and who runs them."""
BLOCKS = {
    # One request of some 10 kB after the other: a stream can break in the middle, and blocks are larger than a fetch.
    "spark.reducer.maxSizeInFlight": "64k",
    "spark.reducer.maxReqsInFlight": "1",
}
# By Unix sockets, which hold 0.2 MB; those of TCP grow to some MB, and take in the rows of a small epoch at once.
SHORT_PIPES = {"spark.python.unix.domain.socket.enabled": "true"}
NETWORK_S = 15.0


def heartbeats(network_s: float = NETWORK_S) -> dict[str, str]:
    """Settings of Spark under which an executor that stands still is given up after `network_s` seconds."""
    return {
        "spark.network.timeout": f"{network_s:g}s",
        "spark.network.timeoutInterval": f"{max(1, network_s // 5):g}s",
        "spark.executor.heartbeatInterval": f"{max(1, network_s // 7):g}s",
    }
