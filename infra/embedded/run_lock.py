"""One `make run` of a pipeline at a time, and nothing beside it that one which was killed has left behind."""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from infra.embedded.guard import SWEEP_TIMEOUT_S, TAG, find_tagged
from infra.embedded.process import kill_all
from infra.errors import UserError


class RunHeldError(UserError):
    """Another run has the pipeline's data, or its processes are left; the message says who, and what to do."""


@contextmanager
def hold(path: Path, pipeline: str, say: Callable[[str], None] = lambda _: None) -> Iterator[None]:
    """Hold a pipeline's lock, a file beside its data, and end what the run before has left.

    The kernel gives the lock back whichever way its holder ends. What is written into it stays: by the tag of the guard
    the next run finds processes of one that was killed together with its guard.

    Raises:
        RunHeldError: another process has it, or what was left does not end.

    """
    if not re.fullmatch(r"\w+", pipeline, re.ASCII):
        raise RunHeldError(
            f"{pipeline!r} is no name of a pipeline; settings.json has to give one of letters and digits"
        )
    try:
        # The state directory too is its owner's alone, whichever command makes it.
        path.parent.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.parent.mkdir(exist_ok=True, mode=0o700)
        file = path.open("a+")
    except OSError as error:
        raise RunHeldError(
            f"{path} cannot be written: {error.strerror}; EFFECTIVELY_ONCE_STATE names another folder"
        ) from error
    # No program that is started inherits it: one that outlives this process would keep the lock.
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunHeldError(_say_held(pipeline, _read(file))) from None
        if tag := _read(file).get("tag"):
            end_left(tag, say)
        file.truncate(0)
        holder = {"pid": os.getpid(), "since": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}", "tag": os.environ.get(TAG)}
        file.write(json.dumps(holder) + "\n")
        file.flush()
        yield


def end_left(tag: str, say: Callable[[str], None] = lambda _: None, timeout_s: float = SWEEP_TIMEOUT_S) -> None:
    """Kill the processes that carry a guard's tag, and return when none is left.

    Where this process carries it too they are of its own making, and stay.

    Raises:
        RunHeldError: with the ids of those that do not end.

    """
    if tag == os.environ.get(TAG):
        return
    deadline = time.monotonic() + timeout_s
    while left := find_tagged(tag):
        ids = ", ".join(str(one.pid) for one in left)
        if time.monotonic() > deadline:
            raise RunHeldError(f"processes of the run before do not end: {ids}; end them, and try again")
        say(f"… ends what the run before has left: process {ids}")
        kill_all(left, timeout_s=1.0)


def _read(file: TextIO) -> dict[str, Any]:
    """Return what a holder wrote; nothing where none has yet."""
    file.seek(0)
    try:
        return dict(json.loads(file.read()))
    except ValueError:
        return {}


def _say_held(pipeline: str, holder: Mapping[str, Any]) -> str:
    pid = holder.get("pid")
    return (
        f"{pipeline} runs already, by process {pid} since {holder.get('since')} UTC. One run at a time has its data: "
        f"end that one (Ctrl-C in its terminal, or `kill -INT {pid}`), or give this pipeline another name in "
        "settings.json"
    )
