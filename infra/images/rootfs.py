"""The Debian that all images begin with, made by mmdebstrap: packages from Debian's mirror, checked by its keys."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from infra.cluster.engine import ensure_program
from infra.console import Console
from infra.toolchain import command
from infra.toolchain.cache import Cache, digest
from infra.toolchain.prepare import CHECKOUT
from infra.versions import DEBIAN

PACKAGES = ("ca-certificates", "procps", "tini")
# Documentation and translations are a tenth of it; dpkg keeps to this in later layers too. Manual pages stay: packages
# link to them when they are configured.
LEFT_OUT = ("/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/info/*")

DAY = CHECKOUT / "images" / "base" / "debian.date"
"""The day that packages of Debian are from, or a later one: another day means other images, built anew."""


def key(arch: str) -> str:
    """Digest of what the root file system is made of."""
    parts = {"suite": DEBIAN, "packages": " ".join(PACKAGES), "out": " ".join(LEFT_OUT), "arch": arch}
    return digest({**parts, "day": DAY.read_text()})


def renew() -> None:
    """Have all images built anew, with the packages that Debian has now."""
    DAY.parent.mkdir(exist_ok=True)
    DAY.write_text(f"{datetime.now(UTC):%Y-%m-%d}\n")


def rootfs(cache: Cache, arch: str, console: Console) -> Path:
    """Return the tar file of the root file system, made when it is not in the cache.

    Raises EngineError where mmdebstrap is not to be had, ToolchainError when it fails.
    """

    def build(directory: Path) -> None:
        ensure_program("mmdebstrap", "base of the images", console)
        options = [f"--dpkgopt=path-exclude={pattern}" for pattern in LEFT_OUT]
        words = ["mmdebstrap", "--variant=minbase", f"--architectures={arch}", f"--include={','.join(PACKAGES)}"]
        command.run(
            "Debian root file system",
            [*words, *options, DEBIAN, directory / "rootfs.tar"],
            log=cache.root / "logs" / "rootfs.log",
            hint="check that apt's mirror is reachable",
        )

    return cache.get(f"rootfs-{arch}", key(arch), build) / "rootfs.tar"
