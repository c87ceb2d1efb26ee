"""strace, by which the file-system calls of a running process are made slower: the machine's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from infra.toolchain.command import ToolchainError

HOW = "disks are slowed by strace, which has to be here and may have to be allowed to attach: apt install strace"
STRANGER = 65534
"""As root another user's process is tried: PostgreSQL does not run as root, and a container may not have the right."""
ATTACHED_S, POLL_S = 5.0, 0.01


def find_strace() -> Path:
    """Return the program, once it was seen to attach to a process beside it.

    Raises ToolchainError where it is missing or may not attach; the message says what to do.
    """
    found = shutil.which("strace")
    if found is None:
        raise ToolchainError(f"there is no strace; {HOW}")
    said = _try(found)
    if said is not None:
        raise ToolchainError(f"strace cannot attach to a process here ({said}); {HOW}; as root, or with ptrace_scope 0")
    return Path(found)


def find_tracers(pid: int) -> set[int]:
    """Return the ids of who traces a process's threads, 0 for nobody; nothing once the process is gone."""
    found = set()
    with suppress(FileNotFoundError, ProcessLookupError):
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - names alone, of threads that come and go
            with suppress(FileNotFoundError, ProcessLookupError):
                told = Path(f"/proc/{pid}/task/{task}/status").read_text()
                found.add(int(told.partition("TracerPid:")[2].split(maxsplit=1)[0]))
    return found


def _try(program: str) -> str | None:
    """Attach to a sleeper as to a server, with a delay; what was said when that fails, None when it works."""
    ids = {"user": STRANGER, "group": STRANGER, "extra_groups": ()} if os.geteuid() == 0 else {}
    command = [program, "-f", "-q", "-o", os.devnull, "-e", "trace=fsync", "-e", "inject=fsync:delay_enter=1", "-p"]
    # Whatever becomes of us, both end by themselves.
    with subprocess.Popen(["sleep", "10"], cwd="/", **ids) as sleeper:  # type: ignore[call-overload]
        with subprocess.Popen([*command, str(sleeper.pid)], stderr=subprocess.PIPE, text=True) as strace:
            deadline = time.monotonic() + ATTACHED_S
            while (works := find_tracers(sleeper.pid) == {strace.pid}) is False and time.monotonic() < deadline:
                if strace.poll() is not None:
                    break
                time.sleep(POLL_S)
            strace.terminate()
            _, errors = strace.communicate()
        sleeper.kill()
    return None if works else (errors.strip().splitlines() or ["it says nothing"])[-1]
