"""Put records through a gateway and print their ids, to be killed in the middle of it."""

from __future__ import annotations

import itertools
import os
import signal
import sys

from effectively_once.gateway import Gateway, Limits


def main(directory: str, bootstrap: str, topic: str, die_at: str) -> None:
    """Put one record after the other for ever, and print the id of each that was accepted.

    `die_at` is a step of the gateway at which the process kills itself: the first time there, nobody is asked.
    """

    def announce(step: str) -> None:
        if step == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    gateway = Gateway(
        directory, producer="child", topic=topic, bootstrap=bootstrap, announce=announce,
        limits=Limits(answer_timeout_s=1.0),
    )  # fmt: skip
    for number in itertools.count():
        identity = gateway.put(f"{number}".encode(), key=f"key-{number % 7}", event_time_ms=number)
        sys.stdout.write(f"{identity}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
