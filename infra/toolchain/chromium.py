"""A headless Chromium for the tests of pages: the machine's own, else Debian's packages, unpacked into the cache.

Nothing is installed on the machine: apt fetches what is not here of Chromium and its libraries (some 100 MB), and it is
unpacked beside a script that finds them (some 300 MB). `python -m infra.toolchain.chromium` does it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from infra.toolchain import command
from infra.toolchain.cache import COMPLETE, Cache, cache_root, digest

OVERRIDE = "CHROMIUM"
"""Environment variable that names the program, where it is not on PATH."""
NAMES = ("chromium", "chromium-browser", "chromium-headless-shell", "google-chrome")
# Without a font nothing on a page has a width.
PACKAGES = ("chromium-headless-shell", "fonts-dejavu-core")
ARTEFACT, PROGRAM = "chromium", "chromium"
HOW = f"have a Chromium on PATH (Debian: apt-get install chromium), or name it in {OVERRIDE}"
# Without a lock, and into a folder of our own: no root is needed, and no other apt waits.
_APT = ("apt-get", "install", "-q", "-y", "--no-install-recommends", "-o", "Debug::NoLocking=1")
_LAUNCHER = """#!/bin/sh
root=$(dirname "$(readlink -f "$0")")/root
libraries=$(echo "$root"/usr/lib/*-linux-gnu)
export LD_LIBRARY_PATH="$libraries:$libraries/pulseaudio"
# Where the machine has no fonts of its own, they and their configuration are here.
[ -d "$root/etc/fonts" ] && export FONTCONFIG_PATH="$root/etc/fonts"
[ -d "$root/usr/share/fonts" ] && export XDG_DATA_HOME="$root/usr/share"
exec "$root/usr/lib/chromium/chromium-headless-shell" "$@"
"""


def find_chromium(env: Mapping[str, str] | None = None, cache: Path | None = None) -> str | None:
    """Return the Chromium there is: that of CHROMIUM, of PATH, or the newest in the cache; None when there is none."""
    env = os.environ if env is None else env
    found = env.get(OVERRIDE) or next((it for name in NAMES if (it := shutil.which(name, path=env.get("PATH")))), None)
    if found is not None:
        return found
    made = [one.parent for one in (cache or cache_root(env)).glob(f"{ARTEFACT}-*/{COMPLETE}")]
    return str(max(made, key=lambda one: one.stat().st_mtime) / PROGRAM) if made else None


def ensure_chromium(cache: Cache, env: Mapping[str, str] | None = None) -> str:
    """Return the Chromium there is, having fetched and unpacked Debian's when there is none.

    Raises ToolchainError when there is no apt, or it does not reach its mirror.
    """
    if found := find_chromium(env, cache.root):
        return found
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise command.ToolchainError(f"Chromium: there is no apt-get here; {HOW}")
    # What is fetched depends on what the machine has: the same list is the same artefact.
    asked = subprocess.run([*_APT, "-qq", "--print-uris", *PACKAGES], capture_output=True, text=True, check=False)
    if asked.returncode:
        raise command.ToolchainError(f"Chromium: {asked.stderr.strip()[-300:]}; run apt-get update, or {HOW}")
    files = "\n".join(sorted(line.split()[1] for line in asked.stdout.splitlines() if line.startswith("'")))

    def build(directory: Path) -> None:
        log, packages = cache.root / "logs" / "chromium.log", directory / "packages"
        (packages / "partial").mkdir(parents=True)
        words = [*_APT, "--download-only", "-o", f"Dir::Cache::archives={packages}", *PACKAGES]
        command.run("Chromium", words, log=log, hint=f"run apt-get update, or {HOW}")
        for package in sorted(packages.glob("*.deb")):
            command.run(
                "Chromium", ["dpkg-deb", "-x", package, directory / "root"], log=log, hint="see that disk is left"
            )
        shutil.rmtree(packages)
        launcher = directory / PROGRAM
        launcher.write_text(_LAUNCHER)
        launcher.chmod(0o755)

    return str(cache.get(ARTEFACT, digest({"files": files, "launcher": _LAUNCHER}), build) / PROGRAM)


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{ensure_chromium(Cache(cache_root()))}\n")
    except command.ToolchainError as error:
        sys.exit(f"✗ {error}")
