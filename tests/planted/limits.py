"""Runs a program that may do anything: bounded in memory and time, in a session of its own, ended by its id.

A planted bug can make a suite allocate without end. One took 22 GB, and the machine with it.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from infra.embedded.process import Child, descendants

GIB = 1 << 30
POLL_S = 0.1
SINGLE_THREADED = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MALLOC_ARENA_MAX"), "1")
"""Each thread of a pool reserves address space that it does not use, and would count against the limit."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run may take.

    Attributes:
        seconds: until it has to end.
        resident_bytes: of the program and all below it together.
        address_bytes: RLIMIT_AS of each of its processes; None for a JVM, which reserves what it does not use.

    """

    seconds: float
    resident_bytes: int = 4 * GIB
    address_bytes: int | None = 4 * GIB


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended: by itself with a code, or at one of its limits."""

    how: Literal["exit", "time", "memory"]
    code: int | None
    seconds: float


def run_limited(argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], log: Path, limits: Limits) -> Ended:
    """Run a program to its end, or to the first limit that it meets; nothing of it is left then.

    Raises:
        ServerError: it cannot be started.

    """
    began = time.monotonic()
    child = Child("suite", argv, log, cwd=cwd, env={**SINGLE_THREADED, **env})
    try:
        if limits.address_bytes is not None:
            with suppress(ProcessLookupError):
                # Right after its start: an interpreter that begins takes some megabytes. Those below it inherit it.
                resource.prlimit(child.pid, resource.RLIMIT_AS, (limits.address_bytes, limits.address_bytes))
        how: Literal["exit", "time", "memory"] = "exit"
        while not child.wait(POLL_S):
            if time.monotonic() - began > limits.seconds:
                how = "time"
            elif _resident(child.pid) > limits.resident_bytes:
                how = "memory"
            else:
                continue
            break
        code = child.status() if how == "exit" else None
    finally:
        # Servers below a campaign are to be stopped in order; tests need not be.
        child.stop(grace_s=30.0 if limits.address_bytes is None else 0.0)
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    return Ended(how, code, time.monotonic() - began)


def _resident(pid: int) -> int:
    """Bytes in memory of a process and all below it."""
    total = 0
    with suppress(psutil.NoSuchProcess):
        for one in [psutil.Process(pid), *descendants(pid)]:
            with suppress(psutil.NoSuchProcess):
                total += one.memory_info().rss
    return total
