"""Containers of a cluster whose engine runs on this machine: their processes are processes of this machine too."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil

from tests.harness.adapters.drivers import NoProcessError


def find_first(container_id: str, proc: Path = Path("/proc")) -> psutil.Process:
    """Return the first process of a container, by its number on this machine.

    Args:
        container_id: as the cluster tells it, without the runtime's name.
        proc: where the kernel tells of processes.

    Raises:
        NoProcessError: it does not run, or not on this machine: the engine is in another one.
    """
    for folder in proc.iterdir():
        if folder.name.isdecimal() and container_id and _is_first(folder, container_id):
            with suppress(psutil.NoSuchProcess):
                return psutil.Process(int(folder.name))
    raise NoProcessError(f"container {container_id[:12]} has no process on this machine")


def _is_first(folder: Path, container_id: str) -> bool:
    # Processes come and go.
    with suppress(OSError):
        if container_id in (folder / "cgroup").read_text():
            # From this machine's number to that in the innermost name space.
            numbers = (folder / "status").read_text().partition("NSpid:")[2].split("\n", 1)[0].split()
            return numbers[-1:] == ["1"] and len(numbers) > 1
    return False
