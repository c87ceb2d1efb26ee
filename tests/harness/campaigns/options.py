"""Options that a campaign has on either stack, what does not go together, and the pipeline that they name."""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from infra.console import Console
from infra.embedded.guard import interrupted
from infra.errors import UserError
from infra.toolchain.cache import Cache, cache_root
from infra.toolchain.prepare import Toolchain
from tests.harness.conditions import add_conditions, refuse_contradictions
from tests.harness.definition.asked import Definition
from tests.harness.judge.verdict import show
from tests.harness.mixture import GROUPS, NoFaultError, without_clock, without_requests, without_result_store
from tests.harness.portions import in_portions
from tests.harness.results import Results
from tests.harness.schedule import Strike
from tests.harness.subject import Subject, from_file
from tests.harness.workload.errors import InputError

FAULTS, RECORDS = "all", 60_000
SEEDED = ("records", "rate", "idle_ms", "skew", "lag_s", "hold_max_ms", "payload_bytes", "unproven", "repair")
"""What is of the seeded stream alone, and of the pipeline that it is made for."""
NO_CLOCK = "the clock of a pipeline of your own is not stepped: its driver runs without libfaketime"
NO_REQUESTS = "nobody asks Spark for the end of a task or stage there: your job's driver runs as it is"


def add_campaign(parser: argparse.ArgumentParser, *, where: str, lengths: Mapping[str, tuple[float, str]]) -> None:
    """Have a command line set what is sent and struck, and under which conditions.

    Args:
        parser: of the command.
        where: what the seed's plan is printed for, beside the seed.
        lengths: of faults that last: the usual one in seconds, and what it is, by name.
    """
    faults = f"all, {', '.join(GROUPS)}, a number, or names with commas between, name*count ({FAULTS})"
    parser.add_argument("--seed", type=int, help="what is sent and struck; drawn and printed when left out")
    parser.add_argument("--faults", help=faults)
    parser.add_argument("--records", type=int, default=RECORDS, help="of the seeded stream (%(default)s)")
    parser.add_argument("--plan", action="store_true", help=f"print the plan of the seed{where}, and do nothing")
    parser.add_argument("--no-controls", dest="controls", action="store_false", help="leave the negative controls out")
    for name, (usual_s, says) in lengths.items():
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, type=float, default=usual_s, metavar="S", help=f"{says} (%(default)s)")
    add_conditions(parser)
    parser.add_argument("--at", type=Path, help="a pipeline of yours: its folder, as new-pipeline makes it")
    parser.add_argument("--job", help="module or module:name of one; the settings' when left out")
    parser.add_argument("--input", type=Path, help="its records: .jsonl, .csv or .parquet")
    parser.add_argument("--key", help="column that is the key of a record")
    parser.add_argument("--time", help="column of the event time")


def settle(parser: argparse.ArgumentParser, given: argparse.Namespace, faults: str) -> argparse.Namespace:
    """Refuse options that do not go together, and say which faults are meant where nothing is said.

    Args:
        parser: of the command.
        given: what the command line says.
        faults: of a pipeline that its author defined.
    """
    refuse_contradictions(parser, given)
    defined = is_defined(given)
    if defined:
        if given.at is None and given.job is None:
            parser.error("name the folder of a pipeline (--at), or a job of the library (--job)")
        if lacking := [f"--{name}" for name in ("input", "key", "time") if getattr(given, name) is None]:
            parser.error(f"a pipeline of yours is struck on records of yours: give {', '.join(lacking)} as well")
        for name in SEEDED:
            if getattr(given, name) != parser.get_default(name):
                parser.error(f"--{name.replace('_', '-')} is of the seeded stream, and your file is sent")
    given.faults = given.faults or (faults if defined else FAULTS)
    return given


def carry_out(run: Callable[[int, argparse.Namespace], int], given: argparse.Namespace, undone: str) -> int:
    """Run what a command line asks for with a seed, its own or one that is drawn; returns the exit code.

    Args:
        run: does it.
        given: what the command line says.
        undone: what is so, whichever way it ends.
    """
    seed = random.SystemRandom().randrange(1_000_000) if given.seed is None else given.seed
    try:
        return run(seed, given)
    except (UserError, NoFaultError, InputError) as error:
        sys.stderr.write(f"✗ {error}\n")
        return 2
    except (KeyboardInterrupt, SystemExit) as end:
        return interrupted(end, undone)


def show_results(results: Results) -> int:
    """Print what a run came to; its exit code."""
    from rich.console import Console as Terminal  # noqa: PLC0415

    show(results, Terminal(highlight=False, soft_wrap=True))
    return results.verdict.exit_code


def is_defined(given: argparse.Namespace) -> bool:
    """Whether a pipeline is struck that its author defined, on records of a file."""
    return any(getattr(given, name) is not None for name in ("at", "job", "input"))


def without_what_it_lacks(strikes: Sequence[Strike], given: argparse.Namespace) -> tuple[Strike, ...]:
    """What is left of strikes on its drivers, which run as they are.

    Raises:
        NoFaultError: one was asked for by its name.
    """
    return without_requests(without_clock(strikes, given.faults, NO_CLOCK), given.faults, NO_REQUESTS)


def file_of(given: argparse.Namespace) -> Subject | None:
    """The file that a command line names, read whole: once, and before anything takes a minute; None: it names none.

    Raises:
        InputError: there is no such file, or it has no such columns.
    """
    return from_file(given.input, given.key, given.time) if is_defined(given) else None


def definition_of(given: argparse.Namespace, toolchain: Toolchain, console: Console) -> Definition:
    """The pipeline that a command line names; sinks of it that cannot be judged are told.

    Raises:
        RunError: it is no pipeline, or cannot be judged.
        ToolchainError: its package cannot be built.
    """
    definition = Definition.at(given.at, given.job, Cache(cache_root()), toolchain)
    for sink, why in definition.left_out.items():
        console.say(f"… not judged: sink {sink}, {why}")
    return definition


def sent_to(
    definition: Definition, file: Subject, strikes: Sequence[Strike], given: argparse.Namespace
) -> tuple[Subject, tuple[Strike, ...]]:
    """What is sent to it, and what is left of the strikes.

    Raises:
        InputError: the file is too short for the faults.
        NoFaultError: a fault of a result store was asked for, and it has no table.
    """
    left = tuple(strikes) if definition.has_tables else without_result_store(strikes, given.faults)
    return in_portions(file, given.input, left, definition.settings), left
