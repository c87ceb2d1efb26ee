"""What a campaign does with a pipeline that its author defined, on either stack, before anything is struck."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from infra.console import Console
from infra.toolchain.cache import Cache, cache_root
from infra.toolchain.prepare import Toolchain
from tests.harness.definition.asked import Definition
from tests.harness.mixture import without_clock, without_requests, without_result_store
from tests.harness.portions import rows_of
from tests.harness.schedule import Strike
from tests.harness.subject import Subject, from_file

NO_CLOCK = "the clock of a pipeline of your own is not stepped: its driver runs without libfaketime"
NO_REQUESTS = "nobody asks Spark for the end of a task or stage there: your job's driver runs as it is"


def without_what_it_lacks(strikes: Sequence[Strike], given: argparse.Namespace) -> tuple[Strike, ...]:
    """What is left of strikes on its drivers, which run as they are; its file is looked at first.

    Raises:
        NoFaultError: one was asked for by its name.
        InputError: there is no such file, or it has no such columns.
    """
    strikes = without_requests(without_clock(strikes, given.faults, NO_CLOCK), given.faults, NO_REQUESTS)
    # Before anything takes a minute.
    from_file(given.input, given.key, given.time)
    return strikes


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
    definition: Definition, strikes: Sequence[Strike], given: argparse.Namespace
) -> tuple[Subject, tuple[Strike, ...]]:
    """What is sent to it, and what is left of the strikes.

    Raises:
        InputError: the file is too short for the faults.
        NoFaultError: a fault of a result store was asked for, and it has no table.
    """
    left = tuple(strikes) if definition.has_tables else without_result_store(strikes, given.faults)
    return rows_of(given.input, given.key, given.time, left, definition.settings), left
