"""Child processes that never outlive this one, and waits that say what they waited for."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil

from infra.errors import UserError
from infra.toolchain.command import tail

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
# Nothing of Python runs between fork and exec: beside other threads it crashed there once in some thousand starts. The
# shell looks whether the parent ended before the signal was asked for; then both are replaced, and the id stays.
BOUND = ("setpriv", "--pdeathsig", "KILL", "sh", "-c", '[ "$PPID" = "$0" ] || exit 1; exec "$@"')
POLL_S = 0.05
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_BOOTED_S = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)

_LIBC = ctypes.CDLL(None, use_errno=True)
# The kernel sends the parent-death signal when the *thread* that forked ends. This one ends with the interpreter.
_SPAWNER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawner")


def _renew_spawner() -> None:
    global _SPAWNER  # noqa: PLW0603 - a forked process has the object but not its thread
    _SPAWNER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawner")


os.register_at_fork(after_in_child=_renew_spawner)


class ServerError(UserError):
    """A server did not start, did not answer in time, or ended. The message holds its last log lines."""


def prctl(option: int, value: int) -> None:
    """Set one attribute of this process by Linux's prctl. Raises OSError."""
    if _LIBC.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}, {value}): {os.strerror(number)}")


class Child:
    """A process in a session of its own, killed by the kernel when this process ends, however that happens."""

    def __init__(
        self, name: str, argv: Sequence[str | Path], log: Path, *, cwd: Path, env: Mapping[str, str] | None = None
    ) -> None:
        """Start it; output is appended to `log`; `env` is added to the environment. Raises ServerError."""
        self.name = name
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        words = [str(word) for word in argv]
        wanted = {**os.environ, **(env or {})}
        if shutil.which(words[0], path=wanted.get("PATH")) is None:
            raise ServerError(f"{name}: cannot start {words[0]}: there is no such program")

        def spawn() -> subprocess.Popen[bytes]:
            with log.open("ab") as out:
                return subprocess.Popen(
                    [*BOUND, str(os.getpid()), *words],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    cwd=cwd,
                    env=wanted,
                    start_new_session=True,  # Ctrl-C goes to us alone; we stop it in order
                )

        try:
            self._popen = _SPAWNER.submit(spawn).result()
        except OSError as error:
            raise ServerError(f"{name}: cannot start {words[0]}: {error}") from error

    @property
    def pid(self) -> int:
        """Process id; it may be another process's once this one was waited for."""
        return self._popen.pid

    def running(self) -> bool:
        """Whether it has not ended."""
        return self._popen.poll() is None

    def status(self) -> int | None:
        """Exit code, minus the signal's number when killed, None while it runs."""
        return self._popen.poll()

    def wait(self, timeout_s: float) -> bool:
        """Wait for its end; False if it still runs after `timeout_s`."""
        try:
            self._popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal; nothing happens when it has ended already."""
        self._popen.send_signal(number)

    def stop(self, grace_s: float = 5.0) -> None:
        """Ask it to end, then kill what is left of it and its descendants. Safe to repeat."""
        family = descendants(self.pid) if self.running() else []
        self.signal(signal.SIGTERM)
        if not self.wait(grace_s):
            self.kill()
        kill_all(family)

    def kill(self) -> None:
        """SIGKILL it and its descendants, and wait until they are gone."""
        family = descendants(self.pid) if self.running() else []
        self.signal(signal.SIGKILL)
        self._popen.wait()
        kill_all(family)

    def post_mortem(self) -> str:
        """How it ended, if it did, and its last log lines."""
        status = self.status()
        ended = "still running" if status is None else f"ended with {status}"
        return f"{self.name} (pid {self.pid}) {ended}; last lines of {self.log}:\n{tail(self.log)}"


def descendants(pid: int) -> list[psutil.Process]:
    """All processes below `pid`, itself not included."""
    try:
        return list(psutil.Process(pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return []


def kill_all(processes: Sequence[psutil.Process], timeout_s: float = 10.0) -> None:
    """SIGKILL these and wait until they have ended (a process id that was re-used meanwhile is left alone).

    Of one whose parent has ended too a zombie is left until the machine's first process collects it, which may take
    seconds: it holds nothing, and nobody waits for that.
    """
    for one in processes:
        with suppress(psutil.NoSuchProcess):
            one.kill()
    deadline = time.monotonic() + timeout_s
    while any(map(_runs, processes)) and time.monotonic() < deadline:
        time.sleep(POLL_S / 5)
    # Collects those that are ours.
    psutil.wait_procs(list(processes), timeout=0)


def _runs(process: psutil.Process) -> bool:
    """Whether any thread of it is left: the first may have ended before the others."""
    try:
        dead = process.status() == psutil.STATUS_ZOMBIE and process.num_threads() < 2
        return not dead and bool(process.is_running())
    except psutil.NoSuchProcess:
        return False


def identity(pid: int) -> str | None:
    """Return `pid@start time in seconds`, which no later process shares; None when there is none, or a zombie.

    The start is the kernel's, to the clock tick: psutil adds a boot time of whole seconds, by which a replacement can
    seem to have started before the kill.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, started_ticks = fields[0], int(fields[19])
    return None if state in "ZX" else f"{pid}@{_BOOTED_S + started_ticks / _TICKS_PER_S:.2f}"


def wait_for(
    what: str, timeout_s: float, check: Callable[[], bool], child: Child | None = None, poll_s: float = POLL_S
) -> None:
    """Return as soon as `check()` is true, which is asked every `poll_s`; an exception of it counts as not yet.

    Raises ServerError, with what was waited for, the last obstacle and `child`'s last log lines, when the time is up
    or `child` has ended.
    """
    deadline = time.monotonic() + timeout_s
    obstacle: Exception | None = None
    while True:
        try:
            if check():
                return
            obstacle = None
        except Exception as error:
            obstacle = error
        dead = child is not None and not child.running()
        if dead or time.monotonic() >= deadline:
            reason = "its process ended" if dead else f"not within {timeout_s:.0f} s"
            last = f"; last obstacle: {type(obstacle).__name__}: {obstacle}" if obstacle else ""
            logs = f"\n{child.post_mortem()}" if child else ""
            raise ServerError(f"waiting for {what}: {reason}{last}{logs}")
        time.sleep(poll_s)
