"""The Python packages of the images, for the images' Python, whatever this machine runs."""

from __future__ import annotations

import sys
from pathlib import Path

from infra.toolchain import command
from infra.toolchain.cache import Cache, digest
from infra.toolchain.prepare import CHECKOUT

LOCK = CHECKOUT / "images" / "deps" / "requirements.lock"
PYTHON = "3.11"  # of Debian 12
PLATFORM = {"amd64": "x86_64-manylinux_2_28", "arm64": "aarch64-manylinux_2_28"}


def install(cache: Cache, arch: str) -> Path:
    """Return the artefact whose folder `packages` holds them; only wheels, checked against the lock's hashes.

    Raises ToolchainError when they cannot be installed.
    """
    lock = LOCK.read_text()

    def build(directory: Path) -> None:
        uv = Path(sys.executable).with_name("uv")
        words: list[str | Path] = [
            uv,
            "pip",
            "install",
            "--quiet",
            "--require-hashes",
            "--no-deps",
            "--only-binary",
            ":all:",
        ]
        words += ["--python-version", PYTHON, "--python-platform", PLATFORM[arch], "--target", directory / "packages"]
        command.run(
            "Python packages of the images",
            [*words, "--requirement", LOCK],
            log=cache.root / "logs" / "image-packages.log",
            hint="check that the package index is reachable, or write the lock anew with `make lock`",
        )

    return cache.get("image-packages", digest({"lock": lock, "python": PYTHON, "arch": arch}), build)
