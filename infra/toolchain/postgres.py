"""PostgreSQL's server for the embedded stack: the machine's own, Debian's package where there is none.

Unlike the rest it is not built here: it needs a C compiler and libraries that only packages bring.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from infra.console import Console
from infra.toolchain.command import ToolchainError

OVERRIDE = "EFFECTIVELY_ONCE_POSTGRES"
PACKAGES = ("postgresql-15",)
OLDEST = 15
VERSION_S = 30.0
DEBIAN = Path("/usr/lib/postgresql")
HOW = (
    f"PostgreSQL {OLDEST} or newer is not here: install it (Debian: apt-get install {PACKAGES[0]}), or set {OVERRIDE} "
    "to the folder of its programs initdb and postgres"
)
Install = Callable[[Sequence[str], str, Console], None]
"""Installs packages, said before it is done: infra.cluster.engine.install_packages."""


def find_postgres(env: Mapping[str, str] | None = None, debian: Path = DEBIAN) -> Path | None:
    """Return the folder of `initdb` and `postgres`, the newest there is; None when there is none (HOW to get it).

    Debian keeps them off PATH, a folder a version.

    Raises ToolchainError when EFFECTIVELY_ONCE_POSTGRES does not name such a folder.
    """
    env = os.environ if env is None else env
    if given := env.get(OVERRIDE):
        if not _complete(Path(given)):
            raise ToolchainError(f"PostgreSQL: {OVERRIDE}={given} lacks initdb or postgres; correct or unset it")
        return Path(given).absolute()
    versions = sorted(
        (int(folder.name) for folder in debian.glob("*") if re.fullmatch(r"\d+", folder.name)), reverse=True
    )
    for version in versions:
        if version >= OLDEST and _complete(debian / str(version) / "bin"):
            return debian / str(version) / "bin"
    return None


def read_version(programs: Path) -> str:
    """Return the version of the programs in a folder. Raises ToolchainError when they do not say it."""
    command = [str(programs / "postgres"), "--version"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=VERSION_S, check=False).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainError(f"PostgreSQL: {programs}/postgres does not say its version: {error}") from error
    if (found := re.search(r"\d+(\.\d+)*", said)) is None:
        raise ToolchainError(f"PostgreSQL: {programs}/postgres --version says {said!r}; reinstall it")
    return found[0]


def ensure_postgres(console: Console, refusal: str | None, install: Install) -> Path:
    """Return the folder of its programs, installing Debian's package when there is none and nothing refuses.

    `refusal` says why packages may not be installed here, None when they may. Debian's package also makes a database
    of the machine's own, which is not started and which nothing here uses.

    Raises ToolchainError.
    """
    if found := find_postgres():
        return found
    if refusal is not None:
        raise ToolchainError(f"{HOW}. Not done here: {refusal}")
    install(PACKAGES, "PostgreSQL for the embedded stack", console)
    if found := find_postgres():
        return found
    raise ToolchainError(HOW)


def _complete(folder: Path) -> bool:
    return all(shutil.which(name, path=str(folder)) for name in ("initdb", "postgres"))
