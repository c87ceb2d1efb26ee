"""Publish one epoch and hang with its transaction open, to be killed there."""

from __future__ import annotations

import signal
import sys

from effectively_once.sinks.kafka import ShardSink
from effectively_once.sinks.kafka_shard import ShardAddress


def main(bootstrap: str, pipeline: str, sink: str, shard: str, epoch: str) -> None:
    """Print `transaction_open` once rows and mark are at the broker, then wait for ever."""

    def hang(step: str) -> None:
        sys.stdout.write(step + "\n")
        sys.stdout.flush()
        signal.pause()

    rows = [(None, f"e{epoch}-r{n}".encode()) for n in range(3)]
    ShardSink(ShardAddress(bootstrap, pipeline, sink, int(shard)), hang).publish(int(epoch), 1, rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
