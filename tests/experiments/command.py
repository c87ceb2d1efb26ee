"""The command line of an experiment: plays a plan on servers of this machine, one arm after the other, and judges it.

Exit code: 0 when every promise holds, 1 when one does not, 2 when something that was to be shown was not (a kill that
missed, an arm that broke off).
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Sequence
from dataclasses import MISSING, Field, dataclass, fields, make_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from infra.embedded.guard import report_interrupt
from infra.options import ask
from infra.toolchain.prepare import CHECKOUT, default_console
from tests.experiments import page
from tests.experiments.experiment import Experiment
from tests.experiments.results import Results
from tests.experiments.run_folder import PAGE, begin
from tests.harness.stack.embedded import QUICK, embedded


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What any experiment is asked for, beside the sizes of its plan."""

    seed: Annotated[int | None, typer.Option(help="Draws records and kills; drawn when left out.")] = None
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes.")] = False
    jvm: Annotated[Literal["lasting", "quick"] | None, typer.Option(help="For throughput, or to be up soon.")] = None
    only: Annotated[list[str] | None, typer.Option(metavar="ARM...", help="Some of the arms: never a pass.")] = None
    resume: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Play what is left of this run; sizes are its own.")
    ] = None
    runs: Annotated[Path | None, typer.Option(help="Where runs are kept; below runs/ when left out.")] = None


def main(experiment: Experiment[Any, Any], arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; returns the exit code. What a user can act on is one line."""

    def act(asked: Any) -> int:
        try:
            results = _play(experiment, asked.resume or _begin(experiment, asked), asked.only)
        except (KeyboardInterrupt, SystemExit) as end:
            return report_interrupt(
                end, "everything that was started has been stopped; --resume RUN plays what is left"
            )
        sys.stdout.write(page.markdown(experiment.page, results) + "\n")
        return results.verdict.exit_code

    return ask(_options_class(experiment), act, arguments, name=experiment.command)


def _begin(experiment: Experiment[Any, Any], asked: Any) -> Path:
    """Make the folder of a new run, with what is to be played in it."""
    seed = random.SystemRandom().randrange(1_000_000) if asked.seed is None else asked.seed
    sizes: dict[str, Any] = dict(experiment.small) if asked.quick else {}
    for option in _options(experiment):
        if (size := getattr(asked, option.name)) is not None:
            sizes[option.name] = tuple(size) if isinstance(size, list) else size
    plan = experiment.plan(seed, **sizes)
    jvm = asked.jvm or (QUICK if asked.quick else experiment.jvm)
    told = " ".join(f"{_flag(one)} {_words(getattr(plan, one.name))}" for one in _options(experiment))
    command = f'make {experiment.command} SEED={seed} ARGS="{told} --jvm {jvm}"'
    return begin(asked.runs or CHECKOUT / "runs" / experiment.command, experiment.name, command, plan, jvm)


def _play(experiment: Experiment[Any, Any], run: Path, only: Sequence[str] | None) -> Results[Any, Any]:
    """Play the arms of a run that have not come to their end, and judge all of it."""
    manifest, plan = experiment.planned(run)
    left = [arm for arm in experiment.left(run, plan) if not only or arm in only]
    console = default_console()
    console.say(f"run {os.path.relpath(run)}, seed {plan.seed}: {', '.join(left) or 'nothing is left to play'}")
    if left:
        with embedded(run, console, experiment.needs, quick=manifest["jvm"] == QUICK) as stack:
            experiment.play(run, plan, left, stack, console)
    results = experiment.write(run)
    console.say(f"page {os.path.relpath(run / PAGE)}")
    return results


def _options(experiment: Experiment[Any, Any]) -> list[Field[Any]]:
    return [one for one in fields(experiment.plan) if one.default is not MISSING]


def _flag(option: Field[Any]) -> str:
    return f"--{option.name.replace('_', '-')}"


def _words(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else f"{value:g}"


def _options_class(experiment: Experiment[Any, Any]) -> type[Asked]:
    """With the sizes of its plan, each of which is as in the plan where nothing is said."""
    sizes = []
    for one in _options(experiment):
        usual: Any = one.default
        kind: Any = list[type(usual[0])] if isinstance(usual, tuple) else type(usual)  # type: ignore[misc]
        small = f"; with --quick {_words(experiment.small[one.name])}" if one.name in experiment.small else ""
        says = typer.Option(
            help=f"{_words(usual)}{small}.", rich_help_panel=f"Sizes: tests/experiments/{experiment.name}/plan.py"
        )
        sizes.append((one.name, Annotated[kind | None, says], None))
    made = make_dataclass("Asked", sizes, bases=(Asked,), frozen=True, kw_only=True)
    made.__doc__ = __doc__
    return made
