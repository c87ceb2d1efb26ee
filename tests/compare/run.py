"""`make compare`: the system-usage job under four semantics on the embedded stack, one after the other.

`python -m tests.compare.run --seed 7 --rate 0.01` exits with 0 when every promise holds, 1 when one does not, 2 when
something that was to be shown was not (a kill that missed, an arm that broke off).
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
from infra.embedded.class_archive import class_archive
from infra.embedded.guard import guarded, interrupted
from infra.embedded.job import RunError
from infra.embedded.process import ServerError
from infra.embedded.stack import EmbeddedStack
from infra.toolchain.cache import Cache, cache_root
from infra.toolchain.command import ToolchainError
from infra.toolchain.postgres import HOW, find_postgres
from infra.toolchain.prepare import CHECKOUT, default_console, prepare
from tests.bench.facts import machine
from tests.compare import page
from tests.compare.arm import Arm
from tests.compare.outputs import Outputs
from tests.compare.plan import Plan
from tests.compare.results import MANIFEST, Comparison, ended, planned, write
from tests.harness.evidence import EvidenceError
from tests.harness.manifest import git_state
from tests.harness.run_directory import RunDirectory, new_run, point_latest
from tests.harness.surroundings import result_store
from tests.harness.workload.errors import InputError

LASTING, QUICK = "lasting", "quick"
SIZES = ("warm_up", "burst", "calm", "struck", "pace", "kills", "driver_kills")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; returns the exit code."""
    given = _given(arguments)
    try:
        results = _compared(given.resume or _begun(given), given.only)
    except (EvidenceError, InputError, RunError, ToolchainError, ServerError) as error:
        sys.stderr.write(f"✗ {error}\n")
        return 2
    except (KeyboardInterrupt, SystemExit) as end:
        return interrupted(end, "everything that was started has been stopped; --resume RUN plays what is left")
    sys.stdout.write(page.markdown(results) + "\n")
    return results.verdict.exit_code


def _begun(given: argparse.Namespace) -> Path:
    """Make the folder of a new run, with what is to be played in it."""
    seed = random.SystemRandom().randrange(1_000_000) if given.seed is None else given.seed
    plan = Plan(seed, given.rate, **{name: getattr(given, name) for name in SIZES})
    path = new_run(given.runs, plan.seed)
    point_latest(path)
    sizes = " ".join(f"--{name.replace('_', '-')} {getattr(plan, name)}" for name in SIZES)
    command = f'make compare SEED={plan.seed} RATE={plan.rate:g} ARGS="{sizes} --jvm {given.jvm}"'
    RunDirectory(path).write_json(path / MANIFEST, {
        "run": path.name, "command": command, "plan": plan.told(), "jvm": given.jvm, "machine": machine(),
        "git": git_state(CHECKOUT),
    })  # fmt: skip
    return path


def _compared(path: Path, only: Sequence[Semantics]) -> Comparison:
    """Play the arms of a run that have not come to their end, and judge all of it."""
    manifest, plan = planned(path)
    left = [semantics for semantics in only if not ended(path / semantics)]
    console = default_console()
    console.say(f"run {os.path.relpath(path)}, seed {plan.seed}: {', '.join(left) or 'nothing is left to play'}")
    if left:
        _play(path, plan, left, console, quick=manifest["jvm"] == QUICK)
    results = write(path)
    console.say(f"page {os.path.relpath(path / 'page.html')}")
    return results


def _play(path: Path, plan: Plan, left: Sequence[Semantics], console: Console, *, quick: bool) -> None:
    """Start what all arms share, and play them one after the other."""
    programs = find_postgres()
    if programs is None:
        raise RunError(f"the look-up needs a result store. {HOW}")
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
            outputs.make((one.id, plan.is_fraud(one.id)) for one in plan.stream() if one.kind == "fresh" and one.id)
            for semantics in left:
                own = RunDirectory(path / semantics)
                shutil.rmtree(own.path, ignore_errors=True)
                own.path.mkdir()
                Arm(
                    own, semantics, plan, toolchain, stack.endpoints, server.url, outputs, console,
                    long_lived=not quick, class_archive=archive, stop=stop,
                ).play()  # fmt: skip


def _given(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.compare.run", description=__doc__)
    sizes = {name: getattr(Plan, name) for name in SIZES}
    parser.add_argument("--seed", type=int, help="draws records, frauds, failures and kills; drawn when left out")
    parser.add_argument("--rate", type=float, default=Plan.rate, help="share of look-ups that fail (%(default)s)")
    for name, default in sizes.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default, help="see tests/compare/plan.py")
    parser.add_argument("--jvm", choices=(LASTING, QUICK), default=LASTING, help="for throughput, or to be up soon")
    parser.add_argument("--only", nargs="+", choices=ALL, default=list(ALL), help="some of the four: never a pass")
    parser.add_argument("--resume", type=Path, metavar="RUN", help="play what is left of this run; sizes are its own")
    parser.add_argument("--runs", type=Path, default=CHECKOUT / "runs" / "compare", help="where runs are kept")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(guarded(main))
