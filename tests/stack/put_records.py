"""Put records through a gateway and print their ids, to be killed in the middle of it."""

from __future__ import annotations

import itertools
import os
import signal
import sys
from typing import Any

from effectively_once.gateway import Gateway, Limits, json_record

BYTES, CLICKS = "bytes", "clicks"
USERS = 7


def user_of(identity: str) -> str:
    """Whose a click is: it follows from the sequence of its id."""
    return f"user-{int(identity.rpartition('-')[2]) % USERS}"


def click(number: int) -> dict[str, Any]:
    """What is put as the click of a number, which is the sequence of its id."""
    return {"user": user_of(f"-{number}"), "payload": f"door {number}"}


def main(directory: str, bootstrap: str, topic: str, die_at: str, what: str) -> None:
    """Put one record after the other for ever, and print the id of each that was accepted.

    `die_at` is a step of the gateway at which the process kills itself: the first time there, nobody is asked. `what`
    is put: the number as text, or clicks as the job of user counts reads them.
    """

    def announce(step: str) -> None:
        if step == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    gateway = Gateway(
        directory,
        producer="child",
        topic=topic,
        bootstrap=bootstrap,
        announce=announce,
        limits=Limits(answer_timeout_s=1.0),
        build=json_record if what == CLICKS else None,
    )
    for number in itertools.count():
        value = click(number) if what == CLICKS else f"{number}".encode()
        identity = gateway.put(value, key=f"key-{number % 7}", event_time_ms=number)
        sys.stdout.write(f"{identity}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
