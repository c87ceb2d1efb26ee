"""`make two-ways`: snapshots and dedup per operator on the embedded stack, one arm after the other.

`python -m tests.experiments.two_ways.run --seed 7 --operators 2 4` exits with 0 when every output is exact and every
kill hit, 1 when an output is wrong, 2 when something that was to be shown was not (a kill that missed, an arm that
broke off).
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from infra.console import Console
from infra.embedded.guard import guarded
from infra.toolchain.prepare import CHECKOUT, default_console
from tests.experiments.command import answered, begun
from tests.experiments.embedded import LASTING, QUICK, embedded
from tests.experiments.ground import Ground
from tests.experiments.two_ways import page
from tests.experiments.two_ways.outputs import Outputs
from tests.experiments.two_ways.plan import Arm, Plan
from tests.experiments.two_ways.play import Play
from tests.experiments.two_ways.results import TwoWays, ended, planned, write
from tests.harness.run_directory import RunDirectory

NEEDS = "the output"
SIZES = ("warm_up", "burst", "paced", "pace", "users", "rows_max")
LISTS = ("operators", "kills")
SMALL = {
    "operators": (2,),
    "kills": (0, 1),
    "warm_up": 50,
    "burst": 400,
    "paced": 200,
    "pace": 50,
    "rows_max": 100,
}
"""Sizes of `--quick`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; returns the exit code."""
    given = _given(arguments)
    return answered(lambda: _played(given.resume or _begun(given), given.only), page.markdown)


def _begun(given: argparse.Namespace) -> Path:
    """Make the folder of a new run, with what is to be played in it."""
    seed = random.SystemRandom().randrange(1_000_000) if given.seed is None else given.seed
    asked = {name: getattr(given, name) for name in (*SIZES, *LISTS)}
    sizes: dict[str, Any] = dict(SMALL) if given.quick else {}
    sizes |= {name: tuple(value) if name in LISTS else value for name, value in asked.items() if value is not None}
    plan = Plan(seed, **sizes)
    jvm = given.jvm or (QUICK if given.quick else LASTING)
    told = " ".join(f"--{name.replace('_', '-')} {getattr(plan, name)}" for name in SIZES)
    lists = " ".join(f"--{name} {' '.join(map(str, getattr(plan, name)))}" for name in LISTS)
    command = f'make two-ways SEED={plan.seed} ARGS="{lists} {told} --jvm {jvm}"'
    return begun(given.runs, plan.seed, command, plan.told(), jvm)


def _played(path: Path, only: Sequence[str] | None) -> TwoWays:
    """Play the arms of a run that have not come to their end, and judge all of it."""
    manifest, plan = planned(path)
    left = [arm for arm in plan.arms if not ended(path / arm.name) and (not only or arm.name in only)]
    console = default_console()
    names = ", ".join(arm.name for arm in left) or "nothing is left to play"
    console.say(f"run {os.path.relpath(path)}, seed {plan.seed}: {names}")
    if left:
        with embedded(path, console, NEEDS, quick=manifest["jvm"] == QUICK) as ground:
            played(path, plan, left, ground, console)
    results = write(path)
    console.say(f"page {os.path.relpath(path / 'page.html')}")
    return results


def played(path: Path, plan: Plan, left: Sequence[Arm], ground: Ground, console: Console) -> None:
    """Play arms of a run one after the other, on a ground that is there."""
    stop = threading.Event()
    with closing(Outputs(ground.database)) as outputs:
        for arm in left:
            own = RunDirectory((path / arm.name).absolute())
            shutil.rmtree(own.path, ignore_errors=True)
            own.path.mkdir()
            Play(own, arm, plan, ground, outputs, console, stop).go()


def _given(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.experiments.two_ways.run", description=__doc__)
    parser.add_argument("--seed", type=int, help="draws records and kills; drawn when left out")
    parser.add_argument("--quick", action="store_true", help=f"small sizes: {SMALL}")
    for name in LISTS:
        parser.add_argument(f"--{name}", type=int, nargs="+", help=f"to be tried; {getattr(Plan, name)}")
    for name in SIZES:
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, type=int, help=f"{getattr(Plan, name)}; see tests/experiments/two_ways/plan.py")
    parser.add_argument("--jvm", choices=(LASTING, QUICK), help="for throughput, or to be up soon")
    parser.add_argument("--only", nargs="+", metavar="ARM", help="some of the arms: never a pass")
    parser.add_argument("--resume", type=Path, metavar="RUN", help="play what is left of this run; sizes are its own")
    parser.add_argument("--runs", type=Path, default=CHECKOUT / "runs" / "two-ways", help="where runs are kept")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(guarded(main))
