"""libfaketime, by which a process sees another time than its machine: built from the source that a wheel carries.

Not the one of a distribution, which also takes the place of sleeps and keeps shared memory: under 0.9.10 every sleep of
Python fails, and what a killed process leaves in /dev/shm stays there.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

from infra.toolchain import command
from infra.toolchain.cache import Cache, digest
from infra.toolchain.command import ToolchainError

LOCK = Path(__file__).parent / "faketime_wheel" / "requirements.lock"
SOURCE = Path("libfaketime") / "vendor" / "libfaketime" / "src"
NAME = "libfaketime.so.1"
# What reads the clock, and waits until a time of day; neither sleeps nor file times. Without state nothing is shared
# between processes or left behind, and no lock is held that a fork could inherit.
DEFINES = ("FAKE_PTHREAD", "FAKE_INTERNAL_CALLS", "FAKE_STATELESS", 'PREFIX=""', 'LIBDIRNAME=""')
FLAGS = ("-std=gnu99", "-O2", "-fPIC", "-shared", "-Wl,--version-script=libfaketime.map")
LIBRARIES = ("-ldl", "-lm", "-lpthread", "-lrt")
HOW = "libfaketime is built here where there are Linux, a C compiler (cc, or CC) and pip's package index"
SETTINGS = {
    # Read at every look at the clock: a change is seen at once, for some 5 microseconds a look.
    "FAKETIME_NO_CACHE": "1",
    # Time-outs and heartbeats go by this clock, which no step ever moves.
    "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    # Otherwise waits by that clock end at once: the fix is for libraries that fake it.
    "FAKETIME_FORCE_MONOTONIC_FIX": "0",
}
PROBE_S = 7200
CHECK_S = 60.0


def find_faketime(cache: Cache) -> Path:
    """Return the library, built when it is not in the cache.

    Raises ToolchainError where it is not to be had; the message says why.
    """
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if sys.platform != "linux" or compiler is None:
        raise ToolchainError(HOW)
    lock = LOCK.read_text()
    key = digest({"lock": lock, "machine": platform.machine(), "how": " ".join((*DEFINES, *FLAGS, *LIBRARIES))})

    def build(directory: Path) -> None:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps", "--no-compile"]
        command.run(
            "libfaketime",
            [*pip, "--only-binary=:all:", "--target", directory / "wheel", "--requirement", LOCK],
            log=cache.root / "logs" / "faketime.log",
            hint=HOW,
        )
        source = directory / "wheel" / SOURCE
        defines = [f"-D{name}" for name in DEFINES]
        command.run(
            "libfaketime",
            [compiler, *FLAGS, *defines, "-o", directory / NAME, "libfaketime.c", *LIBRARIES],
            log=cache.root / "logs" / "faketime.log",
            hint=HOW,
            cwd=source,
        )
        _check(directory)

    return cache.get("faketime", key, build) / NAME


def preload(library: Path, file: Path) -> dict[str, str]:
    """Return the environment of a process whose clock goes by the offset in `file` (see `written`)."""
    before = os.environ.get("LD_PRELOAD")
    return {
        "LD_PRELOAD": f"{library}:{before}" if before else str(library),
        "FAKETIME_TIMESTAMP_FILE": str(file),
        **SETTINGS,
    }


def format_offset(seconds: int) -> str:
    """Return what is in the file for a clock that is ahead by so many seconds; of one length whatever they are.

    Threads of a process read it through one buffer: what is replaced by as many characters is never a word in between.
    """
    return f"{seconds:+08d}"


def _check(directory: Path) -> None:
    """See a process believe it. Raises ToolchainError."""
    file = directory / "probe"
    file.write_text(format_offset(PROBE_S))
    ended = subprocess.run(
        [sys.executable, "-c", "import time; time.sleep(0.01); print(time.time())"],
        capture_output=True,
        text=True,
        timeout=CHECK_S,
        check=False,
        env={**os.environ, **preload(directory / NAME, file)},
    )
    try:
        off = float(ended.stdout) - time.time() - PROBE_S
    except ValueError:
        off = None
    if off is None or abs(off) > CHECK_S:
        said = (ended.stderr or ended.stdout).strip()[-200:]
        raise ToolchainError(f"libfaketime does not move the clock of a process here: {said}")
