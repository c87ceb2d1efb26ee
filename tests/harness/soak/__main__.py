"""A campaign of hours, in parts: each a run of `make chaos`, one after the other, resumable after any interrupt.

`python -m tests.harness.soak --plan FILE` or `--hours 1`; exits with 0 pass, 1 fail, 2 unknown or not all of it run.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from infra.embedded.guard import guarded, interrupted
from infra.toolchain.prepare import CHECKOUT, default_console
from tests.harness.soak.plan import STACKS, Part, Plan, PlanError, Stack, drawn, read_plan
from tests.harness.soak.session import More, Play, Soak, SoakError
from tests.harness.soak.state import State

HOURS = 1.0
ENDING_S = 300.0
"""An interrupted run undoes its fault first: a node that was stopped is started and waited for."""
BELOW = Path("runs/soak")


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
    given = _given(arguments)
    try:
        plan = _plan_of(given)
        drawn_seed = random.SystemRandom().randrange(1_000_000) if given.seed is None else given.seed
        name = plan.name if plan else f"seed {drawn_seed}"
        at = given.at or BELOW / name.replace(" ", "-")
        with _alone(at):
            soak = Soak(at, runs, play, default_console().say, seconds)
            soak.open(name)
            return _soak(soak, plan, given)
    except (PlanError, SoakError) as error:
        sys.stderr.write(f"✗ {error}\n")
        return 2
    except (KeyboardInterrupt, SystemExit) as end:
        return interrupted(end, "what is noted counts, the part that was under way is run again")


def _soak(soak: Soak, plan: Plan | None, given: argparse.Namespace) -> int:
    stacks: Sequence[Stack] = (given.on,) if given.on else STACKS if plan else STACKS[:1]
    if plan is not None:
        soak.keep(soak.state.grown(plan.name, plan.parts))
    more = _nothing if plan is not None else _drawing(soak, stacks, given)
    for one in given.again:
        soak.keep(soak.state.again(one))
    for run in given.take:
        soak.take(run)
    return soak.go(stacks, more).exit_code


def _plan_of(given: argparse.Namespace) -> Plan | None:
    if given.plan is not None and (given.hours, given.seed) != (None, None):
        raise PlanError("a plan has its seeds, and ends with its last part: HOURS= and SEED= do not go with PLAN=")
    if given.hours is not None and given.hours <= 0:
        raise PlanError(f"HOURS={given.hours:g}: more than 0")
    return read_plan(given.plan) if given.plan else None


def _nothing(_: State) -> None:
    """A plan has no more parts than it names."""


def _drawing(soak: Soak, stacks: Sequence[Stack], given: argparse.Namespace) -> More:
    """What draws the next part of a soak without a plan, until its hours are over."""
    seed = _seed_of(soak.state, given.seed)
    spend_s = 3600 * (HOURS if given.hours is None else given.hours)
    soak.say(f"soak of {spend_s / 3600:g} h on {' and '.join(stacks)}; after an interrupt SEED={seed} goes on with it")
    return lambda state: drawn(seed, len(state.parts) + 1, stacks) if state.spent_s < spend_s else None


def _seed_of(state: State, asked: int | None) -> int:
    """The seed that a soak without a plan was begun with. Raises SoakError."""
    kind, _, number = state.name.partition(" ")
    if kind != "seed" or not number.isdecimal():
        raise SoakError(f"this soak was begun with the plan {state.name}: name it (PLAN=), or give AT= another folder")
    if asked is not None and asked != int(number):
        todo = "leave SEED= out, or give AT= another folder"
        raise SoakError(f"this soak was begun with seed {number}, not {asked}: {todo}")
    return int(number)


def _given(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.harness.soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--plan", type=Path, help="TOML or JSON file with the parts; drawn from the seed when left out")
    parser.add_argument("--hours", type=float, help=f"without a plan: no part begins later ({HOURS:g})")
    parser.add_argument("--seed", type=int, help="without a plan; drawn and printed when left out")
    parser.add_argument("--on", choices=STACKS, help="only parts of this stack; without a plan embedded")
    parser.add_argument("--at", type=Path, metavar="DIR", help=f"keeps state and sum (below {BELOW})")
    parser.add_argument(
        "--take", type=Path, nargs="+", action="extend", default=[], metavar="RUN", help="count runs started by hand"
    )
    parser.add_argument("--again", nargs="+", default=[], metavar="PART", help="run parts again, whatever they came to")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(guarded(main))
