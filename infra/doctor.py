"""Is this machine able to run it? Checks as data: what, found, needed, how to fix."""

from __future__ import annotations

import os
import platform
import re
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from rich.console import Console as Screen

from infra.check import Check, amount, free_bytes, table
from infra.toolchain import go as go_tool
from infra.toolchain import jdk
from infra.toolchain.minio import OVERRIDE
from infra.versions import GO_MIN, JDK_MIN, PYTHON_MIN

MEMORY_NEEDED_GIB = 6.0  # measured: a demo has 4.5 resident at most
DISK_NEEDED_GIB = 6.0  # measured: artefact cache 1.4, Go caches 2.2 on the first build, 0.3 a run; the rest is air
OPEN_FILES_NEEDED = 4096  # the broker keeps every segment and every client connection open
PORTS_NEEDED = 8


@dataclass(frozen=True)
class Facts:
    """What was found. None means: not there, or it would not say."""

    system: str
    python: tuple[int, ...]
    java: int | None
    javac: int | None
    maven: str | None
    go: tuple[int, ...] | None
    go_wheel: bool
    minio_override: str | None
    memory_available_bytes: int
    disk_free_bytes: dict[str, int]
    """Free bytes by directory (the cache, the checkout)."""
    open_files: int
    ports_bound: int
    """How many of PORTS_NEEDED ports on 127.0.0.1 could be bound at once."""


def _join(version: tuple[int, ...] | None) -> str:
    return ".".join(map(str, version)) if version else "none"


def checks(facts: Facts) -> list[Check]:
    """Judge each fact; a pure function."""
    return [
        Check("system", facts.system, "Linux", facts.system == "Linux", "use a Linux machine, or a virtual one"),
        Check(
            "Python",
            _join(facts.python),
            f">= {_join(PYTHON_MIN)}",
            facts.python >= PYTHON_MIN,
            "apt install python3 python3-venv (Debian 12 or newer), or make PYTHON=/path/to/python3",
        ),
        *(
            Check(
                f"JDK: {name}",
                str(major) if major else "none",
                f">= {JDK_MIN}",
                bool(major and major >= JDK_MIN),
                jdk.INSTALL,
            )
            for name, major in (("java", facts.java), ("javac", facts.javac))
        ),
        Check("Maven", facts.maven or "none", "any 3.x", facts.maven is not None, "apt install maven"),
        _go_check(facts),
        amount("memory available", facts.memory_available_bytes, MEMORY_NEEDED_GIB, "stop other programs, or add RAM"),
        *(
            amount(
                f"disk free in {where}",
                free,
                DISK_NEEDED_GIB,
                "make room there, or set EFFECTIVELY_ONCE_CACHE to a directory on a larger disk",
            )
            for where, free in facts.disk_free_bytes.items()
        ),
        Check(
            "open files",
            str(facts.open_files),
            f">= {OPEN_FILES_NEEDED}",
            facts.open_files >= OPEN_FILES_NEEDED,
            f"ulimit -n {OPEN_FILES_NEEDED}, or raise nofile in /etc/security/limits.conf",
        ),
        Check(
            "ports on 127.0.0.1",
            f"{facts.ports_bound} of {PORTS_NEEDED} bound",
            str(PORTS_NEEDED),
            facts.ports_bound >= PORTS_NEEDED,
            "bring the loopback interface up (ip link set lo up); a sandbox may forbid listening",
        ),
    ]


def _go_check(facts: Facts) -> Check:
    needed, fix = (
        f">= {_join(GO_MIN)}, or its wheel",
        f"install Go {_join(GO_MIN)} or newer: it builds the object store",
    )
    if facts.minio_override:
        return Check("Go", f"not needed: {OVERRIDE} is set", needed, True, fix)
    if facts.go and facts.go >= GO_MIN:
        return Check("Go", _join(facts.go), needed, True, fix)
    found = (
        f"{_join(facts.go)}; the wheel will be used" if facts.go_wheel else f"{_join(facts.go)}; no wheel for it here"
    )
    return Check("Go", found, needed, facts.go_wheel, fix)


def gather(cache: Path, checkout: Path) -> Facts:
    """Look at this machine. Changes nothing but binding a few ports for a moment."""
    here = go_tool.on_path()
    return Facts(
        system=platform.system(),
        python=sys.version_info[:3],
        java=_major("java"),
        javac=_major("javac"),
        maven=_maven(),
        go=here.version if here else None,
        go_wheel=go_tool.has_wheel(),
        minio_override=os.environ.get(OVERRIDE),
        memory_available_bytes=min([psutil.virtual_memory().available, *_control_group_room()]),
        disk_free_bytes={
            f"the {what} ({path})": free_bytes(path) for what, path in (("cache", cache), ("checkout", checkout))
        },
        # The hard limit: JVMs and Go programs raise their own soft limit to it.
        open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        ports_bound=_bindable(PORTS_NEEDED),
    )


def _major(program: str) -> int | None:
    path = jdk.locate(program)
    return jdk.major_of(path) if path else None


def _maven() -> str | None:
    path = shutil.which("mvn")
    if path is None:
        return None
    with suppress(OSError, subprocess.TimeoutExpired):
        text = subprocess.run([path, "-v"], capture_output=True, text=True, timeout=30, check=False).stdout
        found = re.search(r"Apache Maven (\S+?)(?:\x1b|\s|$)", text)
        return found[1] if found else None
    return None


def _control_group_room() -> Iterator[int]:
    """Bytes left below a container's memory limit, where there is one (cgroup v2, then v1)."""
    for limit, usage in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        # "max" and missing files both mean: no limit.
        with suppress(OSError, ValueError):
            yield int(Path(limit).read_text()) - int(Path(usage).read_text())


def _bindable(wanted: int) -> int:
    bound: list[socket.socket] = []
    try:
        for _ in range(wanted):
            with suppress(OSError):
                one = socket.socket()
                bound.append(one)
                one.bind(("127.0.0.1", 0))
                one.listen()
        return sum(1 for one in bound if _listens(one))
    finally:
        for one in bound:
            one.close()


def _listens(one: socket.socket) -> bool:
    return bool(one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def doctor(cache: Path, checkout: Path, cluster: Callable[[], list[Check]], screen: Screen | None = None) -> int:
    """Print the tables; exit code 0 when everything is there that the demo needs, else 1.

    What only a cluster needs (`cluster` looks for it) is told, and does not count: the demo runs without.
    """
    # A file or a pipe has no width of its own, and 80 would break most lines.
    screen = screen or Screen(width=None if sys.stdout.isatty() else 140)
    results = checks(gather(cache, checkout))
    screen.print(table(results))
    missing = [one.name for one in results if not one.ok]
    screen.print(f"missing: {', '.join(missing)}" if missing else "everything needed is there")
    beyond = cluster()
    screen.print("\nfor a cluster (make up) also:")
    screen.print(table(beyond))
    lacking = [one.name for one in beyond if not one.ok]
    screen.print(f"missing for a cluster: {', '.join(lacking)}" if lacking else "make up can run here")
    return 1 if missing else 0
