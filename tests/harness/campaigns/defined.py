"""The pipeline that a campaign's command line names, the records that are sent to it, and what cannot strike it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from infra.console import Console
from infra.toolchain.cache import Cache, cache_root
from infra.toolchain.prepare import Toolchain
from tests.harness.campaigns.options import Campaign
from tests.harness.definition.asked import Definition
from tests.harness.mixture import without_clock, without_requests, without_result_store
from tests.harness.portions import in_portions
from tests.harness.schedule import Strike
from tests.harness.subject import Subject, from_file

NO_CLOCK = "the clock of a pipeline of your own is not stepped: its driver runs without libfaketime"
NO_REQUESTS = "nobody asks Spark for the end of a task or stage there: your job's driver runs as it is"


def without_what_it_lacks(strikes: Sequence[Strike], asked: Campaign) -> tuple[Strike, ...]:
    """What is left of strikes on its drivers, which run as they are.

    Raises:
        NoFaultError: one was asked for by its name.
    """
    return without_requests(without_clock(strikes, asked.faults, NO_CLOCK), asked.faults, NO_REQUESTS)


def file_of(asked: Campaign) -> Subject | None:
    """The file that a command line names, read whole: once, and before anything takes a minute; None: it names none.

    Raises:
        InputError: there is no such file, or it has no such columns.
    """
    if asked.input is None or asked.key is None or asked.time is None:
        return None
    return from_file(asked.input, asked.key, asked.time)


def definition_of(asked: Campaign, toolchain: Toolchain, console: Console) -> Definition:
    """The pipeline that a command line names; sinks of it that cannot be judged are told.

    Raises:
        RunError: it is no pipeline, or cannot be judged.
        ToolchainError: its package cannot be built.
    """
    definition = Definition.at(asked.at, asked.job, Cache(cache_root()), toolchain)
    for sink, why in definition.left_out.items():
        console.say(f"… not judged: sink {sink}, {why}")
    return definition


def subject_for(
    definition: Definition, file: Subject, strikes: Sequence[Strike], asked: Campaign
) -> tuple[Subject, tuple[Strike, ...]]:
    """What is sent to it, and what is left of the strikes.

    Raises:
        InputError: the file is too short for the faults.
        NoFaultError: a fault of a result store was asked for, and it has no table.
    """
    left = tuple(strikes) if definition.has_tables else without_result_store(strikes, asked.faults)
    return in_portions(file, asked.input or Path(), left, definition.settings), left
