"""A broker that stands still."""

from __future__ import annotations

import signal

import psutil

from infra.embedded.process import wait_for
from infra.embedded.stack import EmbeddedStack

STANDS_S = 20.0


def pause_broker(stack: EmbeddedStack) -> None:
    """Stop it, and wait until it stands still; SIGCONT wakes it.

    One thread takes the signal, and needs a core for it: until then the others may answer what was asked before.
    """
    stack.kafka.signal(signal.SIGSTOP)
    broker = psutil.Process(stack.kafka.pid)
    wait_for("the broker to stand still", STANDS_S, lambda: broker.status() == psutil.STATUS_STOPPED)
