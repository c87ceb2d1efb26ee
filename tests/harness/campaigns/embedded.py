"""The campaign on one machine: what its command line asks for, as far as this machine has it."""

from __future__ import annotations

from infra.embedded.class_archive import class_archive
from infra.embedded.job import RunError
from infra.toolchain.cache import Cache, cache_root
from infra.toolchain.faketime import find_faketime
from infra.toolchain.postgres import HOW, find_postgres
from infra.toolchain.prepare import CHECKOUT, default_console, prepare
from infra.toolchain.strace import find_strace
from tests.harness.campaigns.defined import definition_of, file_of, subject_for, without_what_it_lacks
from tests.harness.campaigns.needed import find_needed
from tests.harness.campaigns.options import Campaign
from tests.harness.campaigns.strikes import count_by_kind
from tests.harness.controls.names import EVERY
from tests.harness.definition.packaged import AnyPipeline, UserCounts
from tests.harness.mixture import (
    CLOCK,
    EMBEDDED,
    UNPACED,
    parse_faults,
    without_clock,
    without_result_store,
    without_slow_disks,
)
from tests.harness.play.embedded_run import EmbeddedRun
from tests.harness.play.planned import planned_faults, show_plan
from tests.harness.portions import sent_by
from tests.harness.results import Results
from tests.harness.slow_disk_sorts import SLOW_DISK


def run(seed: int, asked: Campaign) -> Results | None:
    """Run what the command line asks for; None: its plan was printed, and nothing done.

    Raises:
        NoFaultError: a fault is asked for that there is not.
        InputError: what is sent is none, or too little.
        UserError: something that a run needs is not to be had.
    """
    conditions = asked.conditions
    strikes = parse_faults(asked.faults, seed, EMBEDDED if asked.rate is None else UNPACED)
    if asked.is_defined:
        strikes = without_what_it_lacks(strikes, asked)
    file = file_of(asked)
    # The job without proof has no table.
    database = None if asked.unproven else find_postgres()
    if database is None and file is None:
        strikes = without_result_store(strikes, asked.faults)
    faketime, no_clock = find_needed(CLOCK, strikes, lambda: find_faketime(Cache(cache_root())))
    if no_clock is not None:
        strikes = without_clock(strikes, asked.faults, no_clock)
    strace, no_strace = find_needed(SLOW_DISK, strikes, find_strace)
    if no_strace is not None:
        strikes = without_slow_disks(strikes, asked.faults, no_strace)
    pipeline: AnyPipeline
    if file is None:
        controls = EVERY if asked.controls else ()
        pipeline = UserCounts(CHECKOUT, database is not None, asked.unproven, controls)
        subject = sent_by(seed, asked.records, strikes, conditions)
        if asked.plan:
            show_plan(planned_faults(seed, strikes, conditions, pipeline))
            return None
    console = default_console()
    toolchain = prepare(console)
    if file is not None:
        pipeline = definition = definition_of(asked, toolchain, console)
        subject, strikes = subject_for(definition, file, strikes, asked)
        if definition.has_tables and database is None:
            raise RunError(f"{definition.job.name} has tables. {HOW}")
        database = database if definition.has_tables else None
        if asked.plan:
            show_plan(planned_faults(seed, strikes, conditions, pipeline))
            return None
    elif database is None:
        why = "The job without proof has none." if asked.unproven else HOW
        console.say(f"… left out: the table of the pipeline, and faults of the result store. {why}")
    archive = class_archive(toolchain, console)
    for what, why_not in {"steps of the driver's clock": no_clock, "slow disks": no_strace}.items():
        if why_not is not None:
            console.say(f"… left out: {what}. {why_not}")
    return EmbeddedRun(
        CHECKOUT,
        toolchain,
        strikes,
        seed,
        subject,
        console,
        pipeline,
        archive,
        asked.lengths,
        database,
        faketime,
        strace,
        conditions,
    ).run(count_by_kind(strikes))
