"""`make reconcile`: two streams under the same kills, and a batch run that is held against both.

`python -m tests.reconcile.run --seed 7` exits with 0 when every promise holds, 1 when one does not, 2 when something
that was to be shown was not (a kill that missed, nothing counted twice where it may be, a play that broke off).
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
from infra.embedded.class_archive import class_archive
from infra.embedded.guard import guarded
from infra.embedded.stack import EmbeddedStack
from infra.toolchain.cache import Cache, cache_root
from infra.toolchain.prepare import CHECKOUT, default_console, prepare
from tests.arms.command import STOPPED, answered, begun
from tests.arms.embedded import QUICK
from tests.arms.kept import MANIFEST
from tests.harness.run_directory import RunDirectory
from tests.reconcile import page
from tests.reconcile.plan import Plan
from tests.reconcile.play import Play
from tests.reconcile.results import Reconciliation, write


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; returns the exit code."""
    given = _given(arguments)
    seed = random.SystemRandom().randrange(1_000_000) if given.seed is None else given.seed
    plan = Plan(seed, given.records, given.kills)
    return answered(lambda: _reconciled(plan, given.runs), page.markdown, STOPPED)


def _reconciled(plan: Plan, runs: Path) -> Reconciliation:
    """Play a plan, and judge it; a play that breaks off is judged too."""
    command = f'make reconcile SEED={plan.seed} ARGS="--records {plan.records} --kills {plan.kills}"'
    path = begun(runs, plan.seed, command, plan.told(), QUICK)
    directory, console = RunDirectory(path), default_console()
    console.say(f"run {os.path.relpath(path)}, seed {plan.seed}")
    try:
        _played(plan, directory, console)
    except Exception as error:
        console.say(f"✗ broke off: {error}")
        manifest = orjson.loads((path / MANIFEST).read_bytes())
        directory.write_json(path / MANIFEST, {**manifest, "broke_off": f"{type(error).__name__}: {error}"})
    results = write(path)
    console.say(f"page {os.path.relpath(path / 'page.html')}")
    return results


def _played(plan: Plan, directory: RunDirectory, console: Console) -> None:
    toolchain = prepare(console)
    with console.step("class archive of Spark's JVMs (a training run)", expected_s=40):
        archive = class_archive(Cache(cache_root()), toolchain)
    with EmbeddedStack(directory.path, toolchain, console.say) as stack:
        Play(directory, plan, toolchain, stack.endpoints, console, archive).go()


def _given(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.reconcile.run", description=__doc__)
    parser.add_argument("--seed", type=int, help="draws records and kills; drawn when left out")
    parser.add_argument("--records", type=int, default=Plan.records, help="of the seeded stream (%(default)s)")
    parser.add_argument("--kills", type=int, default=Plan.kills, help="of each stream (%(default)s)")
    parser.add_argument("--runs", type=Path, default=CHECKOUT / "runs" / "reconcile", help="where runs are kept")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(guarded(main))
