"""`make X` starts here: makes the Python environment once, then hands over to `tests.cli` inside it.

Standard library only. The environment lies in the artefact cache, keyed by the lock file and this Python, so a fresh
clone with the same lock starts at once and a changed lock never meets an old environment.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import TYPE_CHECKING

from infra.toolchain.cache import Cache, cache_root, digest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

CHECKOUT = Path(__file__).resolve().parent.parent
LOCK = CHECKOUT / "requirements.lock"
PYTHON_NEEDED = (3, 11)
# Without it pip builds pyspark (published as source only) in an environment of unpinned tools.
BUILD_TOOL = "setuptools"
# Settings of the caller's Python and pip that would put packages elsewhere or look for them elsewhere.
FOREIGN = ("PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_REQUIRE_VIRTUALENV")


class BootstrapError(Exception):
    """The environment cannot be made. The message says why and what to do."""


def environment_key(lock: bytes, python: str, platform: str, prefix: str) -> str:
    """Digest what an environment is made from: the lock, the Python's version and place, the platform."""
    return digest({"lock": lock, "python": python, "platform": platform, "prefix": prefix})


def key_here(lock: bytes) -> str:
    """Return the key for the Python that runs this."""
    version = f"{sys.implementation.cache_tag} {sys.version}"
    return environment_key(lock, version, sysconfig.get_platform(), sys.base_prefix)


def complaint(version: tuple[int, ...], platform: str, modules_missing: list[str]) -> str | None:
    """Say what is wrong with this Python, in one line with the remedy, or None."""
    if version[:2] < PYTHON_NEEDED:
        return (
            f"Python {version[0]}.{version[1]} is too old, 3.11 or newer is needed: "
            "install it (Debian 12 or newer: apt install python3 python3-venv), "
            "or run `make PYTHON=/path/to/python3.11 ...`"
        )
    if platform != "linux":
        return f"{platform} is not supported: the servers and fault injection need Linux"
    if modules_missing:
        package = f"python{version[0]}.{version[1]}-venv"
        return (
            f"this Python lacks {' and '.join(modules_missing)}: "
            f"apt install {package} (or python3-venv), or run `make PYTHON=/path/to/another/python3 ...`"
        )
    return None


def requirement_block(lock: str, package: str) -> str:
    """Return the lines of a lock file that pin `package`, hashes included."""
    found = re.search(rf"^{re.escape(package)}==[^\n]*\n(?: +--hash=[^\n]*\n?)+", lock, re.MULTILINE)
    if not found:
        raise BootstrapError(f"{LOCK}: no pinned {package}; write the lock anew with `make lock`")
    return found[0]


def _run(argv: list[str], log: Path, env: Mapping[str, str]) -> None:
    began = time.monotonic()
    with log.open("ab") as out:
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=env)
        try:
            while child.poll() is None:
                try:
                    child.wait(timeout=20)
                except subprocess.TimeoutExpired:
                    _say(f"… python packages {time.monotonic() - began:.0f} s so far")
        except BaseException:
            child.kill()
            child.wait()
            raise
        status = child.returncode
    if status != 0:
        last = "\n".join("  " + line for line in log.read_text(errors="replace").splitlines()[-20:])
        raise BootstrapError(
            f"{' '.join(argv[:4])} ... ended with {status}; check that pip reaches its package index "
            f"and that {log.parent} has room\n{last}\n  log: {log}"
        )


def install(directory: Path, root: Path) -> None:
    """Make the environment at `directory`: every package by hash, from the index that the user's pip is set to."""
    log = root / "logs" / "python.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"")
    env = {name: value for name, value in os.environ.items() if name not in FOREIGN}
    python = str(directory / "bin" / "python")
    _run([sys.executable, "-m", "venv", str(directory)], log, env)
    first = directory / "first.lock"
    first.write_text(requirement_block(LOCK.read_text(), BUILD_TOOL))
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install"]
    # Not compiled to byte code: most modules are never imported, and compiling them all takes longer than the rest.
    pip += ["--require-hashes", "--no-deps", "--no-compile"]
    _run([*pip, "--requirement", str(first)], log, env)
    # The wheel made of pyspark's 450 MB is unpacked again at once: packing it uncompressed saves half a minute.
    pyspark = ["--no-build-isolation", "--use-pep517", "--config-settings=--build-option=--compression=stored"]
    _run([*pip, *pyspark, "--no-cache-dir", "--requirement", str(LOCK)], log, env)


def environment(root: Path) -> Path:
    """Return the environment's Python, made first if need be. Raises BootstrapError."""
    cache = Cache(root, lambda _: _say("… python packages: another process is installing them; waiting"))
    key = key_here(LOCK.read_bytes())
    python = cache.path("python", key) / "bin" / "python"
    if cache.has("python", key):
        if python.exists():
            return python
        # The Python it was made with was replaced under the same version: its links lead nowhere.
        cache.forget("python", key)
    missing = [name for name in ("venv", "ensurepip") if importlib.util.find_spec(name) is None]
    wrong = complaint(sys.version_info[:3], sys.platform, missing)
    if wrong:
        raise BootstrapError(wrong)

    def build(directory: Path) -> None:
        _say(f"… python packages (about 1 min the first time, 1 GB) into {directory}")
        began = time.monotonic()
        install(directory, root)
        _say(f"✓ python packages {time.monotonic() - began:.1f} s")

    return cache.get("python", key, build, in_place=True) / "bin" / "python"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - there is no console yet


def main(arguments: list[str]) -> NoReturn:
    """Run `tests.cli` with these arguments in the environment; exit with 1 when that is impossible."""
    wrong = complaint(sys.version_info[:3], sys.platform, [])
    if wrong:
        sys.exit(f"✗ {wrong}")
    try:
        python = environment(cache_root())
    except (BootstrapError, OSError) as error:
        sys.exit(f"✗ {error}")
    except KeyboardInterrupt:
        _say("✗ interrupted; the next start begins anew")
        sys.exit(130)
    env = {name: value for name, value in os.environ.items() if name not in FOREIGN}
    env["PYTHONPATH"] = os.pathsep.join([str(CHECKOUT), str(CHECKOUT / "pipelines" / "src")])
    env["PATH"] = os.pathsep.join([str(python.parent), env.get("PATH", os.defpath)])
    # uv, which makes other environments, brings certificates of its own; a company's lie with the machine's.
    env.setdefault("UV_SYSTEM_CERTS", "1")
    os.execve(python, [str(python), "-m", "tests.cli", *arguments], env)  # noqa: S606 - no shell is meant


if __name__ == "__main__":
    main(sys.argv[1:])
