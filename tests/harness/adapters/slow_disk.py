"""The file-system calls of a running server take longer: strace stops each as it begins, and lets it go on later.

Other calls are not delayed, but stopped for moments too: strace looks at every one of a process that it attached to.
Whichever way strace ends, by a signal or with the harness, the kernel lets go of the server, which runs on.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from infra.embedded.process import Child, ServerError
from infra.toolchain.strace import find_tracers
from tests.harness.adapters.drivers import NoProcessError

ATTACHED_S, POLL_S = 10.0, 0.005
ALWAYS_FILES = (
    "%file",
    "fsync",
    "fdatasync",
    "sync_file_range",
    "msync",
    "pread64",
    "preadv",
    "preadv2",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "ftruncate",
    "fallocate",
    "getdents64",
)
"""Calls that no socket has: those which take a path, and those of a place in a file."""
OPEN_FILES = (*ALWAYS_FILES, "read", "readv", "write", "writev", "sendfile")
"""Calls that sockets have too: only of files by name. Java writes its logs with them."""
OPENED_TO_WRITE = os.O_WRONLY | os.O_RDWR


class SlowDisk:
    """Delays the file-system calls of a process and of those below it.

    Args:
        program: strace.
        log: where it says what goes wrong.
        by_name: whether only the files are slow that the processes have open to be written, but with every call on
            them; else all files, with the calls that only files have.
    """

    def __init__(self, program: Path, log: Path, *, by_name: bool) -> None:
        self._program, self._log, self._by_name = program, log, by_name
        self._child: Child | None = None

    def attach(self, processes: Sequence[psutil.Process], delay_ms: float) -> None:
        """Slow them from now on. Raises NoProcessError, with all of them as they were: that was not possible."""
        pids = [one.pid for one in processes]
        try:
            self._child = Child("strace", self._command(pids, delay_ms), self._log, cwd=self._log.parent)
        except ServerError as error:
            raise NoProcessError(str(error)) from error
        deadline = time.monotonic() + ATTACHED_S
        while not self._attached(pids):
            if not self._child.running() or time.monotonic() > deadline:
                said = self._child.post_mortem()
                self.detach()
                raise NoProcessError(f"strace did not attach to {pids[0]}: {said}")
            time.sleep(POLL_S)

    def detach(self) -> None:
        """Let them go. Safe to repeat."""
        if self._child is not None:
            self._child.stop()

    def holds(self) -> bool:
        """Whether strace is still there."""
        return self._child is not None and self._child.running()

    def _attached(self, pids: Sequence[int]) -> bool:
        """Whether it traces every thread of all that are left, the first one among them."""
        assert self._child is not None
        tracers = [find_tracers(pid) for pid in pids]
        return bool(tracers[0]) and all(found <= {self._child.pid} for found in tracers)

    def _command(self, pids: Sequence[int], delay_ms: float) -> list[str]:
        files = sorted({name for pid in pids for name in find_written_files(pid)}) if self._by_name else []
        if self._by_name and not files:
            raise NoProcessError(f"process {pids[0]} has no file open to be written")
        # A machine need not have all of these calls.
        calls = ",".join(one if one.startswith("%") else f"?{one}" for one in self._calls)
        return [
            str(self._program),
            "-f",
            "-q",
            "-o",
            os.devnull,
            "-s",
            "0",
            "-e",
            "verbose=none",
            "-e",
            "signal=none",
            "-e",
            f"trace={calls}",
            "-e",
            f"inject={calls}:delay_enter={int(1000 * delay_ms)}",
            *(word for name in files for word in ("-P", name)),
            *(word for pid in pids for word in ("-p", str(pid))),
        ]

    @property
    def _calls(self) -> tuple[str, ...]:
        return OPEN_FILES if self._by_name else ALWAYS_FILES


def find_written_files(pid: int) -> set[str]:
    """The regular files that a process has open to be written, without its standard output."""
    found = set()
    with suppress(FileNotFoundError, ProcessLookupError):
        for number in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208 - names alone, of files that come and go
            link = Path(f"/proc/{pid}/fd/{number}")
            with suppress(OSError):
                told = Path(f"/proc/{pid}/fdinfo/{number}").read_text()
                flags = int(told.partition("flags:")[2].split(maxsplit=1)[0], 8)
                if int(number) > 2 and flags & OPENED_TO_WRITE and stat.S_ISREG(link.stat().st_mode):
                    found.add(str(link.readlink()))
    return found
