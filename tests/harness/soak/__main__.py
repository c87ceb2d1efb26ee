"""A campaign of hours, in parts: each a run of `make chaos`, one after the other, resumable after any interrupt.

`python -m tests.harness.soak --plan FILE` or `--hours 1`; exits with 0 pass, 1 fail, 2 unknown or not all of it run.
"""

from __future__ import annotations

import fcntl
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from infra.embedded.guard import report_interrupt, run_guarded
from infra.errors import RefusedError
from infra.options import ask
from infra.toolchain.prepare import CHECKOUT, default_console
from tests.harness.mixture import STACKS, Stack
from tests.harness.soak.plan import Part, Plan, draw, read_plan
from tests.harness.soak.session import More, Play, Soak, SoakError
from tests.harness.soak.state import State

HOURS = 1.0
ENDING_S = 300.0
"""An interrupted run undoes its fault first: a node that was stopped is started and waited for."""
BELOW = Path("runs/soak")


@dataclass(frozen=True)
class Asked:
    """A campaign of hours in parts, resumable; exit code 0 pass, 1 fail, 2 unknown or not all of it run."""

    plan: Annotated[
        Path | None, typer.Option(help="TOML or JSON file with the parts; drawn from the seed when left out.")
    ] = None
    hours: Annotated[float | None, typer.Option(help=f"Without a plan: no part begins later ({HOURS:g}).")] = None
    seed: Annotated[int | None, typer.Option(help="Without a plan; drawn and printed when left out.")] = None
    on: Annotated[Stack | None, typer.Option(help="Only parts of this stack; without a plan embedded.")] = None
    at: Annotated[Path | None, typer.Option(metavar="DIR", help=f"Keeps state and sum (below {BELOW}).")] = None
    take: Annotated[list[Path] | None, typer.Option(metavar="RUN...", help="Count runs started by hand.")] = None
    again: Annotated[
        list[str] | None, typer.Option(metavar="PART...", help="Run parts again, whatever they came to.")
    ] = None

    def __post_init__(self) -> None:
        """Refuse what does not go together."""
        if self.plan is not None and (self.hours, self.seed) != (None, None):
            raise RefusedError(
                "a plan has its seeds, and ends with its last part: HOURS= and SEED= do not go with PLAN="
            )
        if self.hours is not None and self.hours <= 0:
            raise RefusedError(f"HOURS={self.hours:g}: more than 0")


def run_part(part: Part) -> None:
    """Run a part as a process of its own, to the end; what ends us ends it first, in order.

    Its exit code tells less than the verdict that it leaves, or does not.
    """
    environment = {**os.environ, "PYTHONPATH": f"{CHECKOUT}:{CHECKOUT / 'pipelines' / 'src'}"}
    process = subprocess.Popen([sys.executable, "-m", *part.command], cwd=CHECKOUT, env=environment)
    try:
        process.wait()
    except BaseException:
        # From a terminal it has heard of it already, and takes two within a second for one.
        process.send_signal(signal.SIGINT)
        try:
            process.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            process.kill()
        raise
    if process.returncode in (130, 128 + signal.SIGTERM):
        # Somebody ended the run, and means this one too.
        raise KeyboardInterrupt


@contextmanager
def _alone(at: Path) -> Iterator[None]:
    """Hold the folder, so that no other soak writes to it. Raises SoakError."""
    at.mkdir(parents=True, exist_ok=True)
    with (at / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise SoakError(f"another soak is at work in {at}") from error
        yield


def main(
    arguments: Sequence[str] | None = None,
    *,
    play: Play = run_part,
    runs: Path = CHECKOUT / "runs",
    seconds: Callable[[], float] = time.monotonic,
) -> int:
    """Run what the command line asks for; returns the exit code.

    Args:
        arguments: of the command line.
        play: runs a part to its end.
        runs: where runs make their directories.
        seconds: a clock.
    """

    def act(asked: Asked) -> int:
        plan = read_plan(asked.plan) if asked.plan else None
        seed = random.SystemRandom().randrange(1_000_000) if asked.seed is None else asked.seed
        name = plan.name if plan else f"seed {seed}"
        at = asked.at or BELOW / name.replace(" ", "-")
        try:
            with _alone(at):
                soak = Soak(at, runs, play, default_console().say, seconds)
                soak.open(name)
                return _soak(soak, plan, asked)
        except (KeyboardInterrupt, SystemExit) as end:
            return report_interrupt(end, "what is noted counts, the part that was under way is run again")

    return ask(Asked, act, arguments, name="soak")


def _soak(soak: Soak, plan: Plan | None, asked: Asked) -> int:
    stacks: Sequence[Stack] = (asked.on,) if asked.on else STACKS if plan else STACKS[:1]
    if plan is not None:
        soak.keep(soak.state.grown(plan.name, plan.parts))
    more = _nothing if plan is not None else _drawing(soak, stacks, asked)
    for one in asked.again or ():
        soak.keep(soak.state.again(one))
    for run in asked.take or ():
        soak.take(run)
    return soak.go(stacks, more).exit_code


def _nothing(_: State) -> None:
    """A plan has no more parts than it names."""


def _drawing(soak: Soak, stacks: Sequence[Stack], asked: Asked) -> More:
    """What draws the next part of a soak without a plan, until its hours are over."""
    seed = _seed_of(soak.state, asked.seed)
    spend_s = 3600 * (HOURS if asked.hours is None else asked.hours)
    soak.say(f"soak of {spend_s / 3600:g} h on {' and '.join(stacks)}; after an interrupt SEED={seed} goes on with it")
    return lambda state: draw(seed, len(state.parts) + 1, stacks) if state.spent_s < spend_s else None


def _seed_of(state: State, asked: int | None) -> int:
    """The seed that a soak without a plan was begun with. Raises SoakError."""
    kind, _, number = state.name.partition(" ")
    if kind != "seed" or not number.isdecimal():
        raise SoakError(f"this soak was begun with the plan {state.name}: name it (PLAN=), or give AT= another folder")
    if asked is not None and asked != int(number):
        todo = "leave SEED= out, or give AT= another folder"
        raise SoakError(f"this soak was begun with seed {number}, not {asked}: {todo}")
    return int(number)


if __name__ == "__main__":
    sys.exit(run_guarded(main))
