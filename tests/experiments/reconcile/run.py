"""`make reconcile`: two streams under the same kills, and a batch run that is held against both.

`python -m tests.experiments.reconcile.run --seed 7` exits with 0 when every promise holds, 1 when one does not, 2 when
something that was to be shown was not (a kill that missed, nothing counted twice where it may be, a play that broke
off).
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import orjson

from infra.console import Console
from infra.embedded.guard import guarded
from infra.toolchain.prepare import CHECKOUT, default_console
from tests.experiments.command import STOPPED, answered, begun
from tests.experiments.embedded import QUICK, embedded
from tests.experiments.ground import Ground
from tests.experiments.kept import MANIFEST
from tests.experiments.reconcile import page
from tests.experiments.reconcile.plan import Plan
from tests.experiments.reconcile.play import Play
from tests.experiments.reconcile.results import Reconciliation, write
from tests.harness.run_directory import RunDirectory


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; returns the exit code."""
    given = _given(arguments)
    seed = random.SystemRandom().randrange(1_000_000) if given.seed is None else given.seed
    plan = Plan(seed, given.records, given.kills)
    return answered(lambda: _reconciled(plan, given.runs), page.markdown, STOPPED)


def _reconciled(plan: Plan, runs: Path) -> Reconciliation:
    """Play a plan on servers of this machine, and judge it."""
    command = f'make reconcile SEED={plan.seed} ARGS="--records {plan.records} --kills {plan.kills}"'
    path, console = begun(runs, plan.seed, command, plan.told(), QUICK), default_console()
    console.say(f"run {os.path.relpath(path)}, seed {plan.seed}")
    with embedded(path, console, None, quick=True) as ground:
        played(path, plan, ground, console)
    results = write(path)
    console.say(f"page {os.path.relpath(path / 'page.html')}")
    return results


def played(path: Path, plan: Plan, ground: Ground, console: Console) -> None:
    """Play a plan on a ground that is there; what breaks it off is noted in the manifest, and judged."""
    directory = RunDirectory(path)
    try:
        Play(directory, plan, ground, console).go()
    except Exception as error:
        console.say(f"✗ broke off: {error}")
        manifest = orjson.loads((path / MANIFEST).read_bytes())
        directory.write_json(path / MANIFEST, {**manifest, "broke_off": f"{type(error).__name__}: {error}"})


def _given(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.experiments.reconcile.run", description=__doc__)
    parser.add_argument("--seed", type=int, help="draws records and kills; drawn when left out")
    parser.add_argument("--records", type=int, default=Plan.records, help="of the seeded stream (%(default)s)")
    parser.add_argument("--kills", type=int, default=Plan.kills, help="of each stream (%(default)s)")
    parser.add_argument("--runs", type=Path, default=CHECKOUT / "runs" / "reconcile", help="where runs are kept")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(guarded(main))
