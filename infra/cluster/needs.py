"""What `make up` needs of this machine beyond what the demo needs: a table for the doctor, refusals for `make up`."""

from __future__ import annotations

import shutil
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from infra.certificates import PROGRAM
from infra.check import GIB, Check, amount, free_bytes
from infra.cluster import engine as engines
from infra.cluster.engine import OLDEST, Engine, EngineError, why_not_here
from infra.cluster.kind import API_PORT, PORTS
from infra.cluster.state import StateDirectory, engine_data
from infra.console import Console

# Measured: 3.9 in use, page cache apart, in the first 75 s of a smoke acceptance on one node. What the Go builds take
# was not measured; the rest is for them.
MEMORY_NEEDED_GIB = 10.0
DISK_NEEDED_GIB = 14.0  # measured: images and layers 6, their copy on the node 5, volumes 1; the rest is air


@dataclass(frozen=True)
class ClusterFacts:
    """What was found.

    Attributes:
        engine: version of the container engine that answers, None without one.
        trouble: why the engine that is there cannot be used.
        refusal: why no packages may be installed here, None when they may.
        debootstrap: mmdebstrap is there, which makes the images' base.
        openssl: it is there, and makes the servers' certificates.
        memory_total_bytes: of the machine.
        disk_free_bytes: where the engine keeps, or will keep, its data.
        disk_at: that place.
        ports_taken: of those that the cluster publishes.
        own_cluster: the cluster of `make up` is there, so its disk and ports are taken rightly.
    """

    engine: str | None = None
    trouble: str | None = None
    refusal: str | None = None
    debootstrap: bool = False
    openssl: bool = False
    memory_total_bytes: int = 0
    disk_free_bytes: int = 0
    disk_at: str = ""
    ports_taken: tuple[int, ...] = field(default=())
    own_cluster: bool = False


def checks(facts: ClusterFacts) -> list[Check]:
    """Judge each fact; a pure function."""
    oldest = ".".join(map(str, OLDEST))
    installed = "none; `make up` installs it" if facts.refusal is None else "none"
    here = "taken by the cluster that is up"
    return [
        Check(
            "container engine",
            facts.engine or ("unusable" if facts.trouble else installed),
            f"Docker >= {oldest}, or root on Debian",
            facts.trouble is None and (facts.engine is not None or facts.refusal is None),
            facts.trouble or facts.refusal or "",
        ),
        *(
            Check(name, "there" if there else installed, use, there or facts.refusal is None, facts.refusal or "")
            for name, there, use in (
                ("mmdebstrap", facts.debootstrap, "to build images"),
                ("OpenSSL", facts.openssl, "for servers' certificates"),
            )
        ),
        amount("memory of the machine", facts.memory_total_bytes, MEMORY_NEEDED_GIB, "use a larger machine"),
        Check("disk for images", here, f">= {DISK_NEEDED_GIB:.0f} GiB", True, "")
        if facts.own_cluster
        else amount(
            f"disk free in {facts.disk_at}",
            facts.disk_free_bytes,
            DISK_NEEDED_GIB,
            "make room there, or set EFFECTIVELY_ONCE_CACHE to a directory on a larger disk",
        ),
        Check(
            "published ports",
            here if facts.own_cluster else f"taken: {', '.join(map(str, facts.ports_taken)) or 'none'}",
            ", ".join(map(str, (API_PORT, *PORTS))),
            facts.own_cluster or not facts.ports_taken,
            "find who has it (ss -tanp) and stop that",
        ),
    ]


def gather(state: StateDirectory) -> ClusterFacts:
    """Look at this machine; nothing is changed."""
    version, trouble, place = None, None, engine_data()
    try:
        engine = engines.running()
        if engine is not None:
            version = engine.run("version", "--format", "{{.Server.Version}}")
            with suppress(EngineError):
                place = _data(engine)
    except EngineError as error:
        trouble = str(error)
    return ClusterFacts(
        engine=version,
        trouble=trouble,
        refusal=why_not_here(),
        debootstrap=shutil.which("mmdebstrap") is not None,
        openssl=shutil.which(PROGRAM) is not None,
        memory_total_bytes=psutil.virtual_memory().total,
        disk_free_bytes=free_bytes(place),
        disk_at=str(place),
        ports_taken=tuple(port for port in (API_PORT, *PORTS) if port_taken(port)),
        own_cluster=state.record.exists(),
    )


def require_ports() -> None:
    """Raise EngineError when a port that the cluster publishes is taken."""
    taken = [port for port in (API_PORT, *PORTS) if port_taken(port)]
    if taken:
        raise EngineError(
            f"port {', '.join(map(str, taken))} on 127.0.0.1 is taken, and the cluster publishes its services there; "
            f"find who has it (ss -tanp 'sport = :{taken[0]}') and stop that"
        )


def ensure_openssl(console: Console) -> None:
    """Install OpenSSL where it is missing and packages may be installed.

    Raises EngineError when they may not, ToolchainError when apt fails.
    """
    missing = "OpenSSL, which makes the servers' certificates,"
    engines.ensure_program(PROGRAM, "certificates of servers", console, missing)


def require_room(engine: Engine, state: StateDirectory) -> None:
    """Raise EngineError when the engine's disk has no room for a cluster, unless there is one, which has it."""
    place = _data(engine)
    free = free_bytes(place) / GIB
    if free < DISK_NEEDED_GIB and not state.record.exists():
        raise EngineError(
            f"{free:.1f} GiB are free in {place}, {DISK_NEEDED_GIB:.0f} are needed for images and volumes; make room, "
            "or set EFFECTIVELY_ONCE_CACHE to a directory on a larger disk"
        )


def _data(engine: Engine) -> Path:
    return Path(engine.run("info", "--format", "{{.DockerRootDir}}"))


def port_taken(port: int) -> bool:
    """Whether somebody has a port of 127.0.0.1, be it for listening or as his end of a connection."""
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return True
        return False
