"""`make compare`: the system-usage job under four semantics on the embedded stack, one after the other.

`python -m tests.experiments.compare.run --seed 7 --rate 0.01` exits with 0 when every promise holds, 1 when one does
not, 2 when something that was to be shown was not (a kill that missed, an arm that broke off).
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from effectively_once_jobs.system_usage.settings import ALL, Semantics
from infra.console import Console
from infra.embedded.guard import guarded
from infra.toolchain.prepare import CHECKOUT, default_console
from tests.experiments.command import answered, begun
from tests.experiments.compare import page
from tests.experiments.compare.outputs import Outputs
from tests.experiments.compare.plan import Plan
from tests.experiments.compare.play import Arm
from tests.experiments.compare.results import Comparison, ended, planned, write
from tests.experiments.embedded import LASTING, QUICK, embedded
from tests.experiments.ground import Ground
from tests.harness.run_directory import RunDirectory

NEEDS = "the look-up"
SIZES = ("warm_up", "burst", "calm", "struck", "pace", "kills", "driver_kills")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; returns the exit code."""
    given = _given(arguments)
    return answered(lambda: _compared(given.resume or _begun(given), given.only), page.markdown)


def _begun(given: argparse.Namespace) -> Path:
    """Make the folder of a new run, with what is to be played in it."""
    seed = random.SystemRandom().randrange(1_000_000) if given.seed is None else given.seed
    plan = Plan(seed, given.rate, **{name: getattr(given, name) for name in SIZES})
    sizes = " ".join(f"--{name.replace('_', '-')} {getattr(plan, name)}" for name in SIZES)
    command = f'make compare SEED={plan.seed} RATE={plan.rate:g} ARGS="{sizes} --jvm {given.jvm}"'
    return begun(given.runs, plan.seed, command, plan.told(), given.jvm)


def _compared(path: Path, only: Sequence[Semantics]) -> Comparison:
    """Play the arms of a run that have not come to their end, and judge all of it."""
    manifest, plan = planned(path)
    left = [semantics for semantics in only if not ended(path / semantics)]
    console = default_console()
    console.say(f"run {os.path.relpath(path)}, seed {plan.seed}: {', '.join(left) or 'nothing is left to play'}")
    if left:
        with embedded(path, console, NEEDS, quick=manifest["jvm"] == QUICK) as ground:
            played(path, plan, left, ground, console)
    results = write(path)
    console.say(f"page {os.path.relpath(path / 'page.html')}")
    return results


def played(path: Path, plan: Plan, left: Sequence[Semantics], ground: Ground, console: Console) -> None:
    """Play arms of a run one after the other, on a ground that is there."""
    stop, outputs = threading.Event(), Outputs(ground.database)
    outputs.make((one.id, plan.is_fraud(one.id)) for one in plan.stream() if one.kind == "fresh" and one.id)
    try:
        for semantics in left:
            own = RunDirectory(path / semantics)
            shutil.rmtree(own.path, ignore_errors=True)
            own.path.mkdir()
            Arm(own, semantics, plan, ground, outputs, console, stop).play()
    finally:
        outputs.drop()


def _given(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.experiments.compare.run", description=__doc__)
    sizes = {name: getattr(Plan, name) for name in SIZES}
    parser.add_argument("--seed", type=int, help="draws records, frauds, failures and kills; drawn when left out")
    parser.add_argument("--rate", type=float, default=Plan.rate, help="share of look-ups that fail (%(default)s)")
    for name, default in sizes.items():
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=int, default=default, help="see tests/experiments/compare/plan.py"
        )
    parser.add_argument("--jvm", choices=(LASTING, QUICK), default=LASTING, help="for throughput, or to be up soon")
    parser.add_argument("--only", nargs="+", choices=ALL, default=list(ALL), help="some of the four: never a pass")
    parser.add_argument("--resume", type=Path, metavar="RUN", help="play what is left of this run; sizes are its own")
    parser.add_argument("--runs", type=Path, default=CHECKOUT / "runs" / "compare", help="where runs are kept")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(guarded(main))
