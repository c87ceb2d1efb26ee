"""`make fuzz`: any record, declaration and settings, through trials in memory, Spark's reading, and all real sinks.

Exits with 0 when nothing stopped, was lost or differed from what plain Python makes of it; 1 when something did, with
how to see it again; 2 when nothing can be said: bad input, or a bound came before the records were through.
"""

from __future__ import annotations

import logging
import os
import random
import shutil
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import hypothesis
import structlog
import typer

from infra.command_line import run_tool
from infra.embedded.guard import report_interrupt, run_guarded
from infra.options import ask
from infra.toolchain.prepare import CHECKOUT, default_console, prepare
from tests.fuzz import test_answers, test_refused
from tests.fuzz.chosen import NOTES_VARIABLE, RECORDS_VARIABLE, SEED_VARIABLE, noted
from tests.fuzz.records import seeded
from tests.fuzz.result import MEMORY, STACK, Result, counted, forget
from tests.fuzz.test_in_memory import fuzzed
from tests.harness.commit import git_state

OUT = CHECKOUT / "runs" / "fuzz"
RECORDS, LEAST = 100_000, 1_000
ROUND, A_TRIAL = 20, 500
"""Declarations of a round, and records of each."""
SPARK = (
    "tests/spark/test_fuzzed_trial.py",
    "tests/spark/test_fuzzed_stack.py",
    "tests/spark/test_fuzzed_declarations.py",
)
NOTES = "notes"
Outcomes = dict[str, Counter[str]]
"""Of each part of a run."""
Say = Callable[[str], object]


@dataclass(frozen=True)
class Asked:
    """Any record, declaration and settings, through trials and all sinks: none may stop, lose or differ.

    Exit code 0 when none did, 1 when one did, 2 when nothing can be said.
    """

    seed: Annotated[int | None, typer.Option(min=0, help="What is drawn; drawn and printed when left out.")] = None
    records: Annotated[int, typer.Option(min=LEAST, help="Through trials in memory, and as many on the stack.")] = (
        RECORDS
    )
    on: Annotated[
        Literal["memory", "stack", "all"],
        typer.Option(help="memory: no server, no Spark. stack: Spark, broker, store and PostgreSQL here."),
    ] = "all"
    minutes: Annotated[float | None, typer.Option(min=0.1, help="Longest time in memory; without: no bound.")] = None
    round: Annotated[int | None, typer.Option(min=0, help="Only this round in memory, to see it again.")] = None
    out: Annotated[
        Path, typer.Option(metavar="DIR", file_okay=False, help="For the result, or a failure.", show_default=False)
    ] = OUT


@dataclass
class Folder:
    """What tests that write a file take in the place of pytest's own."""

    path: Path

    def getbasetemp(self) -> Path:
        """Where they write."""
        self.path.mkdir(parents=True, exist_ok=True)
        return self.path


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz what the command line asks for; return the exit code."""
    return ask(Asked, play, arguments, name="fuzz")


def play(asked: Asked) -> int:
    """Fuzz in memory, then on the stack; return the exit code."""
    console = default_console()
    seed = random.SystemRandom().randrange(1_000_000) if asked.seed is None else asked.seed
    # What the product warns of is what is drawn here.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    console.say(f"seed {seed}: `make fuzz SEED={seed}` draws the same")
    forget(asked.out)
    outcomes: Outcomes = {}
    try:
        code = 0 if asked.on == STACK else in_memory(asked, seed, console.say, outcomes)
        if code or asked.round is not None:
            return code
        if asked.on != MEMORY:
            prepare(console)
            code = on_stack(asked, seed, outcomes)
    except (KeyboardInterrupt, SystemExit) as end:
        return report_interrupt(end, f"nothing is left of it; `make fuzz SEED={seed}` begins anew")
    if code == 0:
        keep(asked, seed, outcomes)
    return code


def keep(asked: Asked, seed: int, outcomes: Outcomes) -> None:
    """Write what became of the records, in a form that can be kept."""
    git = git_state(CHECKOUT)
    parts = {part: counted(found) for part, found in outcomes.items()}
    Result(seed, git.get("commit", ""), bool(git.get("dirty")), parts).write(asked.out)


def in_memory(asked: Asked, seed: int, say: Say, found: Outcomes) -> int:
    """Run round after round until so many records are through, or the time is over; return the exit code."""
    began, outcomes = time.monotonic(), found.setdefault(MEMORY, Counter())
    number = asked.round or 0
    while outcomes["read"] < asked.records:
        if asked.minutes is not None and time.monotonic() - began > asked.minutes * 60:
            say(f"✗ {asked.minutes:g} minutes are over after {outcomes['read']:,} of {asked.records:,} records")
            return 2
        try:
            outcomes.update(once(f"{seed}-{number}", Folder(asked.out)))
        except Exception:
            return report_failure(asked, seed, number, say)
        say(f"round {number}: {outcomes['read']:,} of {asked.records:,} records, {time.monotonic() - began:.0f} s")
        if asked.round is not None:
            break
        number += 1
    say(f"nothing stopped and no two sinks differ: {', '.join(f'{n:,} {what}' for what, n in outcomes.most_common())}")
    return 0


def once(seed: str, folder: Any) -> Counter[str]:
    """Run a round: declarations, settings and answers that hold or not, then records through those that do."""
    for refused in (
        test_refused.test_a_declaration_is_refused_by_name_or_takes_records,
        test_answers.test_an_answer_is_refused_by_name_or_every_sink_shows_it,
    ):
        hypothesis.seed(seed)(refused)()
    for settings in (
        test_refused.test_settings_hold_or_are_refused_by_name,
        test_refused.test_a_settings_file_of_any_bytes_is_refused_by_name,
    ):
        hypothesis.seed(seed)(settings)(tmp_path_factory=folder)
    return fuzzed(ROUND, seeded(A_TRIAL), seed)


def report_failure(asked: Asked, seed: int, number: int, say: Say) -> int:
    """Write down what went wrong in a round, and say how to see it again; return the exit code."""
    asked.out.mkdir(parents=True, exist_ok=True)
    page = asked.out / "failure.txt"
    page.write_text(traceback.format_exc(), encoding="utf-8")
    say(f"✗ round {number}: {traceback.format_exc().strip().splitlines()[-1][:200]}")
    say(f'what was drawn: {page}; again: make fuzz SEED={seed} ARGS="--on memory --round {number}"')
    return 1


def on_stack(asked: Asked, seed: int, found: Outcomes) -> int:
    """Send records through Spark and all real sinks, as the slow tests do; return the exit code."""
    notes = asked.out.absolute() / NOTES
    shutil.rmtree(notes, ignore_errors=True)
    os.environ[NOTES_VARIABLE] = str(notes)
    os.environ[SEED_VARIABLE], os.environ[RECORDS_VARIABLE] = str(seed), str(asked.records)
    done = run_tool("python", "-m", "pytest", "-n0", "-v", "--durations=0", "-p", "no:cacheprovider", *SPARK)
    found[STACK] = noted(notes)
    # Of pytest 1 is a test that failed; all else says nothing of the pipeline.
    return done.returncode if done.returncode in (0, 1) else 2


if __name__ == "__main__":
    sys.exit(run_guarded(main))
