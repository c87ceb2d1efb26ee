"""`make two-ways`: snapshots and dedup per operator on the embedded stack, one arm after the other.

`python -m tests.twoways.run --seed 7 --operators 2 4` exits with 0 when every output is exact and every kill hit, 1
when an output is wrong, 2 when something that was to be shown was not (a kill that missed, an arm that broke off).
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
from typing import Any

from infra.console import Console
from infra.embedded.class_archive import class_archive
from infra.embedded.guard import guarded
from infra.embedded.job import RunError
from infra.embedded.process import ServerError
from infra.embedded.stack import EmbeddedStack
from infra.toolchain.cache import Cache, cache_root
from infra.toolchain.command import ToolchainError
from infra.toolchain.postgres import HOW, find_postgres
from infra.toolchain.prepare import CHECKOUT, default_console, prepare
from tests.arms.kept import MANIFEST
from tests.bench.facts import machine
from tests.harness.evidence import EvidenceError
from tests.harness.manifest import git_state
from tests.harness.run_directory import RunDirectory, new_run, point_latest
from tests.harness.surroundings import result_store
from tests.harness.workload.errors import InputError
from tests.twoways import page
from tests.twoways.arm import Play
from tests.twoways.outputs import Outputs
from tests.twoways.plan import Arm, Plan
from tests.twoways.results import TwoWays, ended, planned, write

LASTING, QUICK = "lasting", "quick"
SIZES = ("warm_up", "burst", "paced", "pace", "users", "rows_max")
LISTS = ("operators", "kills")
SMALL = {
    "operators": (2,), "kills": (0, 1), "warm_up": 50, "burst": 400, "paced": 200, "pace": 50, "rows_max": 100,
}  # fmt: skip
"""Sizes of `--quick`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; returns the exit code."""
    given = _given(arguments)
    try:
        results = _played(given.resume or _begun(given), given.only)
    except (EvidenceError, InputError, RunError, ToolchainError, ServerError) as error:
        sys.stderr.write(f"✗ {error}\n")
        return 2
    except (KeyboardInterrupt, SystemExit) as end:
        sys.stderr.write(
            "✗ interrupted; everything that was started has been stopped; --resume RUN plays what is left\n"
        )
        if isinstance(end, SystemExit):
            raise
        return 130
    sys.stdout.write(page.markdown(results) + "\n")
    return results.verdict.exit_code


def _begun(given: argparse.Namespace) -> Path:
    """Make the folder of a new run, with what is to be played in it."""
    seed = random.SystemRandom().randrange(1_000_000) if given.seed is None else given.seed
    asked = {name: getattr(given, name) for name in (*SIZES, *LISTS)}
    sizes: dict[str, Any] = dict(SMALL) if given.quick else {}
    sizes |= {name: tuple(value) if name in LISTS else value for name, value in asked.items() if value is not None}
    plan = Plan(seed, **sizes)
    jvm = given.jvm or (QUICK if given.quick else LASTING)
    path = new_run(given.runs, plan.seed)
    point_latest(path)
    told = " ".join(f"--{name.replace('_', '-')} {getattr(plan, name)}" for name in SIZES)
    lists = " ".join(f"--{name} {' '.join(map(str, getattr(plan, name)))}" for name in LISTS)
    command = f'make two-ways SEED={plan.seed} ARGS="{lists} {told} --jvm {jvm}"'
    RunDirectory(path).write_json(path / MANIFEST, {
        "run": path.name, "command": command, "plan": plan.told(), "jvm": jvm, "machine": machine(),
        "git": git_state(CHECKOUT),
    })  # fmt: skip
    return path


def _played(path: Path, only: Sequence[str] | None) -> TwoWays:
    """Play the arms of a run that have not come to their end, and judge all of it."""
    manifest, plan = planned(path)
    left = [arm for arm in plan.arms if not ended(path / arm.name) and (not only or arm.name in only)]
    console = default_console()
    names = ", ".join(arm.name for arm in left) or "nothing is left to play"
    console.say(f"run {os.path.relpath(path)}, seed {plan.seed}: {names}")
    if left:
        _play(path, plan, left, console, quick=manifest["jvm"] == QUICK)
    results = write(path)
    console.say(f"page {os.path.relpath(path / 'page.html')}")
    return results


def _play(path: Path, plan: Plan, left: Sequence[Arm], console: Console, *, quick: bool) -> None:
    """Start what all arms share, and play them one after the other."""
    programs = find_postgres()
    if programs is None:
        raise RunError(f"the output needs a result store. {HOW}")
    toolchain = prepare(console)
    archive = None
    if quick:
        with console.step("class archive of Spark's JVMs (a training run)", expected_s=40):
            archive = class_archive(Cache(cache_root()), toolchain)
    stop = threading.Event()
    with EmbeddedStack(path, toolchain, console.say, long_lived=not quick) as stack:
        os.environ["AWS_ACCESS_KEY_ID"] = stack.endpoints.s3_access_key
        os.environ["AWS_SECRET_ACCESS_KEY"] = stack.endpoints.s3_secret_key
        with result_store(RunDirectory(path), programs) as server:
            assert server is not None, "its programs are there"
            outputs = Outputs(server)
            try:
                for arm in left:
                    own = RunDirectory((path / arm.name).absolute())
                    shutil.rmtree(own.path, ignore_errors=True)
                    own.path.mkdir()
                    Play(
                        own, arm, plan, toolchain, stack.endpoints, server.url, path.absolute() / "work" / "kafka",
                        outputs, console, long_lived=not quick, class_archive=archive, stop=stop,
                    ).go()  # fmt: skip
            finally:
                outputs.close()


def _given(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.twoways.run", description=__doc__)
    parser.add_argument("--seed", type=int, help="draws records and kills; drawn when left out")
    parser.add_argument("--quick", action="store_true", help=f"small sizes: {SMALL}")
    for name in LISTS:
        parser.add_argument(f"--{name}", type=int, nargs="+", help=f"to be tried; {getattr(Plan, name)}")
    for name in SIZES:
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, type=int, help=f"{getattr(Plan, name)}; see tests/twoways/plan.py")
    parser.add_argument("--jvm", choices=(LASTING, QUICK), help="for throughput, or to be up soon")
    parser.add_argument("--only", nargs="+", metavar="ARM", help="some of the arms: never a pass")
    parser.add_argument("--resume", type=Path, metavar="RUN", help="play what is left of this run; sizes are its own")
    parser.add_argument("--runs", type=Path, default=CHECKOUT / "runs" / "two-ways", help="where runs are kept")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(guarded(main))
