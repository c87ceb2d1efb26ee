"""Tries a plan of alterations in two processes, each with copies of the runs of its own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from tests.tampered.alterations import Alteration, plan
from tests.tampered.bases import make_bases, read_bases
from tests.tampered.trial import Trial, Tried

PROCESSES = 2
CHUNK = 10
"""Alterations that a process is given at once."""
MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it
"""Where there is one, the copies are there: 10,000 alterations write some gigabytes."""
_trial: list[Trial] = []


def scratch() -> str | None:
    """Return the folder for copies; None for the usual one."""
    return str(MEMORY) if os.access(MEMORY, os.W_OK) else None


def go(seed: int, count: int, only: Sequence[str], number: int | None, say: Callable[[str], object]) -> list[Tried]:
    """Try the alterations of a plan, or one of them; in the order of the plan.

    Args:
        seed: of the plan.
        count: how many.
        only: patterns of files and fields; without any: all.
        number: of the one that is tried; None: all.
        say: is told how far it is.

    Raises:
        TrialError: a run does not pass before it is altered, or what is known of it is not what the judge says.

    """
    with tempfile.TemporaryDirectory(prefix="tampered-", dir=scratch()) as name:
        folder = Path(name).resolve()
        (folder / "bases").mkdir()
        bases = make_bases(folder / "bases")
        planned = plan(read_bases(bases), seed, count if number is None else max(count, number + 1), only)
        if number is not None:
            planned = planned[number : number + 1]
        say(f"{len(planned)} alterations of {', '.join(bases)}")
        return _all(planned, bases, folder, say)


def _all(
    planned: Sequence[Alteration], bases: dict[str, Path], folder: Path, say: Callable[[str], object]
) -> list[Tried]:
    tried: list[Tried] = []
    pool = ProcessPoolExecutor(PROCESSES, initializer=_begin, initargs=(bases, folder))
    try:
        chunks = [pool.submit(_try, planned[at : at + CHUNK]) for at in range(0, len(planned), CHUNK)]
        for done, chunk in enumerate(as_completed(chunks), start=1):
            some = chunk.result()
            tried += some
            for one in (one for one in some if one.lost):
                say(f"✗ {one.alteration}: {', '.join(one.objecting) or 'nobody'} objected")
            if done % 50 == 0 or done == len(chunks):
                lost = sum(one.lost for one in tried)
                say(f"{len(tried)}/{len(planned)} tried, {lost} lost")
    finally:
        pool.shutdown(cancel_futures=True)
    return sorted(tried, key=lambda one: one.alteration.number)


def _begin(bases: dict[str, Path], folder: Path) -> None:
    _trial.append(Trial(bases, read_bases(bases), folder / f"copies-{os.getpid()}"))


def _try(alterations: Sequence[Alteration]) -> list[Tried]:
    return [_trial[0].of(one) for one in alterations]
