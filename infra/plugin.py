"""A program that `pulumi` starts and calls: it prints its port, answers, and does not outlive who started it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NoReturn

import grpc  # type: ignore[import-untyped]
from pulumi.runtime._grpc_settings import _GRPC_CHANNEL_OPTIONS

PARENT_CHECK_S: Final = 2.0  # how long a killed `pulumi` may leave its plugin behind
STOP_GRACE_S: Final = 0.2  # for the answer to Cancel; what still runs is not waited for


def serve(answer: Callable[[Any], None], stop: threading.Event) -> NoReturn:
    """Serve until SIGINT, SIGTERM, `stop` or the death of the process that started this; exits with 0.

    `answer` adds what answers to the server.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    parent = os.getppid()
    server = grpc.server(ThreadPoolExecutor(max_workers=4), options=_GRPC_CHANNEL_OPTIONS)
    answer(server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    while not stop.wait(PARENT_CHECK_S):
        if os.getppid() != parent:
            break
    server.stop(STOP_GRACE_S).wait()
    # A program that still waits for the engine keeps threads that would hold the exit up.
    sys.stdout.flush()
    os._exit(0)
