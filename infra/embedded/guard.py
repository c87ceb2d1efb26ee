"""Runs a program so that nothing it started survives it, whatever happens to it.

The program runs in a forked child. The parent, the guard, does nothing but wait: orphans are handed to it by the
kernel (child subreaper), and when the child ends, even by SIGKILL, it kills what is left. If the guard itself is
killed the kernel sends the child SIGTERM, and the child cleans up.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
import uuid
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import NoReturn

import psutil

from infra.embedded.process import PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG, descendants, kill_all, prctl

TAG = "EFFECTIVELY_ONCE_GUARD"
SWEEP_TIMEOUT_S = 15.0
# One Ctrl-C may arrive twice, from the terminal and passed on by another process: the second must not stop the
# orderly end that the first began. A person who means it presses again later.
SAME_INTERRUPT_S = 1.0

_WATCHED = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD}
_SI_KERNEL = 0x80


def run_guarded(main: Callable[[], int]) -> int:
    """Run `main` in a guarded child and return its exit code (128 + signal if it was killed; 130 after Ctrl-C).

    Call it first of all in a program: before threads are started, and while the process has no other children (the
    guard reaps them all). SIGTERM and SIGHUP raise SystemExit in `main`, SIGINT raises KeyboardInterrupt.
    """
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    tag = uuid.uuid4().hex
    sys.stdout.flush()
    sys.stderr.flush()
    guard = os.getpid()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    child = os.fork()
    if child == 0:
        _be_child(main, guard, tag, mask)
    try:
        return _watch(child)
    finally:
        sweep(tag)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def report_interrupt(end: KeyboardInterrupt | SystemExit, says: str) -> int:
    """Tell that `main` was interrupted, and how things stand; returns the exit code of Ctrl-C, raises another `end`."""
    sys.stderr.write(f"✗ interrupted; {says}\n")
    if isinstance(end, SystemExit):
        raise end
    return 130


def _watch(child: int) -> int:
    while True:
        info = signal.sigwaitinfo(_WATCHED)
        if info.si_signo == signal.SIGCHLD:
            status = _reap(child)
            if status is not None:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
        elif info.si_code != _SI_KERNEL:
            # What the terminal sends reaches the whole group, the child included; only the rest is passed on.
            with suppress(ProcessLookupError):
                os.kill(child, info.si_signo)


def _reap(child: int) -> int | None:
    """Collect every ended child and adopted orphan; the status of `child` if it is among them."""
    mine = None
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == child:
                mine = status
    return mine


def _be_child(main: Callable[[], int], guard: int, tag: str, mask: set[int | signal.Signals]) -> NoReturn:
    code = 1
    try:
        os.environ[TAG] = tag
        interrupted_at = [-SAME_INTERRUPT_S]

        def interrupt(number: int, _frame: FrameType | None) -> None:
            again = time.monotonic() - interrupted_at[0] < SAME_INTERRUPT_S
            interrupted_at[0] = time.monotonic()
            if again:
                return
            if number == signal.SIGINT:
                raise KeyboardInterrupt
            raise SystemExit(128 + number)

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, interrupt)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() == guard:
            code = main()
    except KeyboardInterrupt:
        code = 130
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            sys.stderr.write(end.code + "\n")
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        if os.getppid() != guard:
            with suppress(BaseException):
                sweep(tag)
        os._exit(code)


def find_tagged(tag: str) -> list[psutil.Process]:
    """Find the processes that inherited this guard's tag, also those the kernel handed to somebody else."""
    found = []
    for one in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if one.pid != os.getpid() and one.environ().get(TAG) == tag:
                found.append(one)
    return found


def sweep(tag: str, timeout_s: float = SWEEP_TIMEOUT_S) -> None:
    """Kill every descendant and every tagged process, until none is left or the time is up."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        family = {one.pid: one for one in [*descendants(os.getpid()), *find_tagged(tag)]}
        alive = [one for one in family.values() if _alive(one)]
        if not alive:
            break
        kill_all(alive, timeout_s=1.0)
        _reap(-1)
    _reap(-1)


def _alive(one: psutil.Process) -> bool:
    try:
        return bool(one.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
