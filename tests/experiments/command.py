"""The command line of an experiment: plays a plan on servers of this machine, one arm after the other, and judges it.

Exit code: 0 when every promise holds, 1 when one does not, 2 when something that was to be shown was not (a kill that
missed, an arm that broke off).
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Sequence
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from infra.embedded.guard import interrupted
from infra.embedded.job import RunError
from infra.embedded.process import ServerError
from infra.toolchain.command import ToolchainError
from infra.toolchain.prepare import CHECKOUT, default_console
from tests.experiments import page
from tests.experiments.embedded import LASTING, QUICK, embedded
from tests.experiments.experiment import Experiment
from tests.experiments.results import Results
from tests.experiments.run_folder import PAGE, begun
from tests.harness.evidence import EvidenceError
from tests.harness.workload.errors import InputError


def main(experiment: Experiment[Any, Any], arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; returns the exit code. What a user can act on is one line."""
    given = _given(experiment, arguments)
    try:
        results = _played(experiment, given.resume or _begun(experiment, given), given.only)
    except (EvidenceError, InputError, RunError, ToolchainError, ServerError) as error:
        sys.stderr.write(f"✗ {error}\n")
        return 2
    except (KeyboardInterrupt, SystemExit) as end:
        return interrupted(end, "everything that was started has been stopped; --resume RUN plays what is left")
    sys.stdout.write(page.markdown(experiment.page, results) + "\n")
    return results.verdict.exit_code


def _begun(experiment: Experiment[Any, Any], given: argparse.Namespace) -> Path:
    """Make the folder of a new run, with what is to be played in it."""
    seed = random.SystemRandom().randrange(1_000_000) if given.seed is None else given.seed
    sizes: dict[str, Any] = dict(experiment.small) if given.quick else {}
    for option in _options(experiment):
        if (asked := getattr(given, option.name)) is not None:
            sizes[option.name] = tuple(asked) if isinstance(asked, list) else asked
    plan = experiment.plan(seed, **sizes)
    jvm = given.jvm or (QUICK if given.quick else experiment.jvm)
    told = " ".join(f"{_flag(one)} {_words(getattr(plan, one.name))}" for one in _options(experiment))
    command = f'make {experiment.command} SEED={seed} ARGS="{told} --jvm {jvm}"'
    return begun(given.runs, experiment.name, command, plan, jvm)


def _played(experiment: Experiment[Any, Any], run: Path, only: Sequence[str] | None) -> Results[Any, Any]:
    """Play the arms of a run that have not come to their end, and judge all of it."""
    manifest, plan = experiment.planned(run)
    left = [arm for arm in experiment.left(run, plan) if not only or arm in only]
    console = default_console()
    console.say(f"run {os.path.relpath(run)}, seed {plan.seed}: {', '.join(left) or 'nothing is left to play'}")
    if left:
        with embedded(run, console, experiment.needs, quick=manifest["jvm"] == QUICK) as ground:
            experiment.play(run, plan, left, ground, console)
    results = experiment.write(run)
    console.say(f"page {os.path.relpath(run / PAGE)}")
    return results


def _options(experiment: Experiment[Any, Any]) -> list[Field[Any]]:
    return [one for one in fields(experiment.plan) if one.default is not MISSING]


def _flag(option: Field[Any]) -> str:
    return f"--{option.name.replace('_', '-')}"


def _words(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else f"{value:g}"


def _given(experiment: Experiment[Any, Any], arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"make {experiment.command}", description=__doc__)
    parser.add_argument("--seed", type=int, help="draws records and kills; drawn when left out")
    parser.add_argument("--quick", action="store_true", help=f"small sizes: {_told(experiment.small)}")
    for option in _options(experiment):
        usual: Any = option.default
        several = isinstance(usual, tuple)
        words: dict[str, Any] = {"nargs": "+", "type": type(usual[0])} if several else {"type": type(usual)}
        where = f"see tests/experiments/{experiment.name}/plan.py"
        parser.add_argument(_flag(option), help=f"{_words(usual)}; {where}", **words)
    parser.add_argument("--jvm", choices=(LASTING, QUICK), help="for throughput, or to be up soon")
    parser.add_argument("--only", nargs="+", metavar="ARM", help="some of the arms: never a pass")
    parser.add_argument("--resume", type=Path, metavar="RUN", help="play what is left of this run; sizes are its own")
    runs = CHECKOUT / "runs" / experiment.command
    parser.add_argument("--runs", type=Path, default=runs, help="where runs are kept")
    return parser.parse_args(arguments)


def _told(sizes: Any) -> str:
    return ", ".join(f"{name} {_words(value)}" for name, value in sizes.items())
