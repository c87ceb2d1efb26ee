"""The campaign on one machine: a pipeline on the embedded stack under every fault of a plan that a seed draws."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from effectively_once.object_store import BucketAddress
from effectively_once.settings import PipelineSettings
from infra.console import Console
from infra.embedded.class_archive import class_archive
from infra.embedded.job import RunError
from infra.embedded.postgres import PostgresServer
from infra.embedded.stack import EmbeddedStack, Endpoints
from infra.toolchain.cache import Cache, cache_root
from infra.toolchain.command import ToolchainError
from infra.toolchain.faketime import find_faketime
from infra.toolchain.postgres import HOW, find_postgres
from infra.toolchain.prepare import CHECKOUT, Toolchain, default_console, prepare
from infra.toolchain.strace import find_strace
from tests.harness import with_requests, with_table
from tests.harness.act import Act
from tests.harness.adapters.chain_reader import ChainReader
from tests.harness.adapters.driver_clock import DriverClock, clocked
from tests.harness.adapters.driver_metrics import ANY_PORT, read_metric
from tests.harness.adapters.events import Watch
from tests.harness.adapters.hold import Hold
from tests.harness.adapters.job_home import PROGRAM, JobHome
from tests.harness.adapters.spark_requests import SparkRequests
from tests.harness.adapters.supervised import SupervisedDrivers
from tests.harness.adapters.tables import Tables
from tests.harness.adapters.transactions import open_transactions
from tests.harness.campaigns.defined import definition_of, file_of, sent_to, without_what_it_lacks
from tests.harness.campaigns.demo import JOB, PIPELINE, SHARDS, TOPIC, pipeline_settings
from tests.harness.campaigns.options import Campaign
from tests.harness.campaigns.strikes import told
from tests.harness.collector import USER_COUNTS as USUAL_OUTPUTS
from tests.harness.collector import Outputs, with_rows
from tests.harness.conditions import USUAL, Conditions
from tests.harness.controls.embedded import play as play_controls
from tests.harness.controls.names import EVERY
from tests.harness.definition.asked import Definition
from tests.harness.faults.arsenal import TRANSACTION_TIMEOUT_S, EmbeddedArsenal, Lengths
from tests.harness.faults.lag import Lags
from tests.harness.faults.slow_disk_arsenal import SlowDisks, slow_disks_of
from tests.harness.history import History
from tests.harness.inquiry import Complete, Inquiry, Tail
from tests.harness.manifest import EVERY_NEGATIVE_CONTROL, code_of, manifest_of
from tests.harness.mixture import (
    CLOCK,
    EMBEDDED,
    TABLE,
    UNPACED,
    asked_for,
    name_of,
    plan,
    without_clock,
    without_result_store,
    without_slow_disks,
)
from tests.harness.place import Patience, Place
from tests.harness.play.cut_links import CutLinks, cut_links
from tests.harness.play.recorded import run_recorded
from tests.harness.play.way_out import WayOut
from tests.harness.portions import sent_by
from tests.harness.results import Results
from tests.harness.run_directory import RunDirectory
from tests.harness.schedule import EARLY_STEPS, STEPS, PlannedFault, Strike
from tests.harness.schemas import USER_COUNTS, WITH_TABLE
from tests.harness.sinks import ACCEPTED_ROWS
from tests.harness.slow_disk_sorts import SLOW_DISK
from tests.harness.spread import EXECUTORS, HEAP_MIB, PARTITIONS
from tests.harness.stall_sorts import asks_spark
from tests.harness.subject import Subject
from tests.harness.surroundings import linked, result_store

CLAIM = (
    "Every event in time is counted exactly once per user and minute, whichever executors, drivers, workers, brokers "
    "and stores are killed or stopped: no sink misses, doubles, invents or alters a record, and no reader sees one "
    "change."
)
UNPROVEN = "without_proof"
UNPROVEN_JOB = f"tests.harness.{UNPROVEN}"
"""The module in the folder above; only named, as whoever imports it goes without proof."""
PATIENCE = Patience(driver_s=180.0, replaced_s=120.0, take_over_s=120.0)
LOOK_PATIENCE_S = 5.0
"""A store that does not answer within so long is asked again when it is time for the next window."""


@dataclass
class Chaos:
    """One campaign from start to verdict; whichever way `run` ends, every fault is undone and no process is left.

    Attributes:
        checkout: where `runs/` is.
        toolchain: of the embedded stack.
        strikes: what is done, in any order.
        seed: draws what is sent, and when what is done.
        subject: what is sent.
        console: tells what is under way.
        class_archive: folder of shared class data of the JVMs.
        lengths: of faults that last.
        controls: whether the negative controls are played.
        database: the folder of PostgreSQL's programs; without it the pipeline has no table.
        faketime: libfaketime; without it no clock can be stepped.
        strace: without it no disk can be slowed.
        conditions: under which the pipeline runs.
        definition: the pipeline that is struck; None: `user_counts`.
        stop: set from outside to end early.
    """

    checkout: Path
    toolchain: Toolchain
    strikes: Sequence[Strike]
    seed: int
    subject: Subject
    console: Console
    class_archive: Path | None = None
    lengths: Lengths = field(default_factory=Lengths)
    controls: bool = True
    database: Path | None = None
    faketime: Path | None = None
    strace: Path | None = None
    conditions: Conditions = USUAL
    definition: Definition | None = None
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> Results:
        """Run it all and judge it; a run that broke off is judged too, by what there is (see `run_recorded`).

        Raises:
            NoFaultError: a fault needs a step that the pipeline does not have; nothing was started.
        """
        planned = planned_faults(self.seed, self.strikes, self.conditions, self.definition)
        return run_recorded(
            self.checkout,
            self.seed,
            f"{self.subject.says}; {told(self.strikes)}",
            self.console,
            manifest=self._manifest,
            play=lambda directory: self._play(directory, planned),
        )

    def _play(self, directory: RunDirectory, planned: Sequence[PlannedFault]) -> None:
        """Run the part that needs servers, and write its evidence."""
        subject, definition = self.subject, self.definition
        with (
            History(directory.history_path) as history,
            cut_links(self.strikes) as cuts,
            self._stack(directory, cuts) as stack,
            linked(stack) as link,
            result_store(directory, self.database) as database,
        ):
            hold = Hold(directory.path / "work" / "points")
            os.environ.update(hold.env)
            os.environ["AWS_ACCESS_KEY_ID"] = stack.endpoints.s3_access_key
            os.environ["AWS_SECRET_ACCESS_KEY"] = stack.endpoints.s3_secret_key
            tools, bootstrap = self.toolchain, stack.endpoints.kafka_bootstrap
            home = JobHome(
                tools,
                stack.endpoints,
                directory.path,
                self.class_archive,
                memory_mib=HEAP_MIB,
                executors=EXECUTORS,
                conf=self.conditions.spark,
                environment={} if definition is None else definition.environment,
            )
            watch = Watch(directory.path / "work" / "events.jsonl", history)
            job, checkout = (with_table.JOB, self.checkout) if database is not None else (JOB, None)
            if self.conditions.unproven:
                job, checkout = UNPROVEN_JOB, self.checkout
            if definition is not None:
                job, checkout = PROGRAM, None
            if subject.gateways:
                os.environ.update(ANY_PORT)
            module, requests = job, self._requests(directory)
            if requests is not None:
                os.environ.update(requests.env)
                module, checkout = with_requests.MODULE, self.checkout
            offset = directory.path.absolute() / "work" / "clock" / "offset"
            clock = None if self.faketime is None else DriverClock(self.faketime, offset)
            drivers = SupervisedDrivers(
                clocked(home, clock), module, watch.path, checkout, history=history, say=self.console.say
            )
            if self.conditions.repair:
                drivers.way_out = self._way_out(home, drivers, directory).take
            # The pipeline reaches its store by the link, and every server that is cut off by one too; the harness goes
            # straight to them.
            kafka, store, results = cuts.between(
                bootstrap, stack.kafka.link_port, link.endpoint, None if database is None else database.url
            )
            own = {
                "kafka_bootstrap": kafka,
                "s3_endpoint": store,
                "transaction_timeout_s": TRANSACTION_TIMEOUT_S,
                "database": results or None,
                **self.conditions.pipeline(subject.gateways),
            }
            if definition is None:
                settings = pipeline_settings(stack.endpoints, subject).model_copy(update={"job": job, **own})
            else:
                bounds = {"s3_bucket": stack.endpoints.s3_bucket, "epoch_rows_max": subject.epoch_rows_max}
                settings = PipelineSettings.model_validate({**definition.settings, **bounds, **own})
            place = Place(stack.endpoints, settings, drivers, watch, patience=PATIENCE)
            act = Act(
                directory,
                history,
                place,
                subject,
                console=self.console,
                stop=self.stop,
                faults=planned,
                arsenal=EmbeddedArsenal(
                    drivers,
                    watch,
                    stack.kafka,
                    stack.object_store,
                    link,
                    hold,
                    bootstrap,
                    settings.pipeline,
                    self.lengths,
                    database,
                    clock,
                    requests,
                    self.conditions.network_s,
                    cuts.links,
                    self._disks(directory, stack, database),
                    lags_of(subject, self.seed),
                    seed=self.seed,
                    say=self.console.say,
                ),
                open_transactions=lambda: open_transactions(tools.java, tools.kafka_classpath, bootstrap),
                beside=lambda: self._controls(directory, home),
                partitions=PARTITIONS,
                outputs=self._outputs(directory, settings, home, database),
            )
            with self._inquiry(directory, drivers, stack.endpoints, settings) if subject.gateways else nullcontext():
                act.go()
            history.end()

    def _outputs(
        self, directory: RunDirectory, settings: PipelineSettings, home: JobHome, database: PostgresServer | None
    ) -> Outputs:
        tables = None if database is None else Tables(database, settings.pipeline)
        if self.definition is not None:
            return self.definition.outputs(
                directory, settings, home.endpoints, tables, lambda path: home.create(path, PARTITIONS)
            )
        if tables is None:
            return USUAL_OUTPUTS
        shape = with_table.pipeline.tables[ACCEPTED_ROWS]
        return with_rows(tables, lambda _: tables.make(ACCEPTED_ROWS, shape, SHARDS))

    def _inquiry(
        self, directory: RunDirectory, drivers: SupervisedDrivers, endpoints: Endpoints, settings: PipelineSettings
    ) -> Inquiry:
        """Who asks the pipeline of this run how complete its results are."""
        chain = ChainReader(BucketAddress(endpoints.s3_endpoint, settings.s3_bucket), PIPELINE, TOPIC, LOOK_PATIENCE_S)

        def tail() -> Tail:
            head = chain.head()
            return [] if head is None else head.content["tail"]

        packages = f"{self.toolchain.wheel.installed}:{self.checkout}"
        work = directory.path.absolute() / "work"
        return Inquiry(
            directory.path,
            tail,
            Complete(directory.path.absolute() / "settings.json", packages, work / "complete.log"),
            lambda: read_metric(drivers.driver),
            (settings.window_ms, settings.lateness_ms),
        )

    def _way_out(self, home: JobHome, drivers: SupervisedDrivers, directory: RunDirectory) -> WayOut:
        def with_proof() -> None:
            if drivers.module != with_requests.MODULE:
                drivers.module = JOB

        return WayOut(home, directory.path.absolute() / "settings.json", JOB, with_proof)

    def _requests(self, directory: RunDirectory) -> SparkRequests | None:
        """Where the drivers are asked, where that is part of the plan: nothing runs beside the job otherwise."""
        folder = directory.path.absolute() / "work" / "requests"
        return SparkRequests(folder) if asks_spark(self.strikes) else None

    def _disks(
        self, directory: RunDirectory, stack: EmbeddedStack, database: PostgresServer | None
    ) -> SlowDisks | None:
        if self.strace is None:
            return None
        return slow_disks_of(self.strace, directory.logs / "strace.log", stack.endpoints, database)

    def _stack(self, directory: RunDirectory, cuts: CutLinks) -> EmbeddedStack:
        return EmbeddedStack(
            directory.path,
            self.toolchain,
            self.console.say,
            kafka_link=cuts.broker_port,
            class_archive=self.class_archive,
        )

    def _controls(self, directory: RunDirectory, home: JobHome) -> None:
        if self.controls and self.definition is None:
            play_controls(
                directory, home, self.checkout, seed=self.seed, console=self.console, stop=self.stop, controls=EVERY
            )

    def _manifest(self, name: str) -> dict[str, Any]:
        definition, subject = self.definition, self.subject
        if definition is not None:
            of_pipeline = definition.in_manifest(subject)
        else:
            of_pipeline = {
                "claim": CLAIM,
                "pipeline": PIPELINE,
                "topic": TOPIC,
                "shards": SHARDS,
                "controls": EVERY_NEGATIVE_CONTROL if self.controls else (),
                "schemas": USER_COUNTS if self.database is None else WITH_TABLE,
                # Drivers without proof run code of this package; those that repair what comes of it, the product's.
                "code": code_of(self.checkout, *[self.checkout / "tests"] * self.conditions.unproven),
                "named": {"campaign": "embedded", **subject.named},
            }
        of_pipeline["named"] |= {"faults": ",".join(name_of(one) for one in self.strikes), **self.conditions.named}
        return manifest_of(
            name, seed=self.seed, subject=subject, checkout=self.checkout, strikes=self.strikes, **of_pipeline
        )


def lags_of(subject: Subject, seed: int) -> Lags | None:
    """What lets partitions lag; None where the sender waits for the chain."""
    return None if subject.rate is None else Lags.of(subject.held, PARTITIONS, seed)


def planned_faults(
    seed: int,
    strikes: Sequence[Strike],
    conditions: Conditions,
    definition: Definition | None = None,
    *,
    early: bool = False,
) -> list[PlannedFault]:
    """The plan of a campaign, on either stack.

    Args:
        seed: draws.
        strikes: what is done.
        conditions: lengths of faults.
        definition: the pipeline; None: `user_counts`.
        early: only at steps that a strike from afar comes in time for.

    Raises:
        NoFaultError: a strike needs a step that the pipeline does not have.
    """
    usual = {"steps": EARLY_STEPS if early else STEPS, "table": TABLE}
    return plan(
        seed,
        strikes,
        SHARDS if definition is None else definition.settings["shards"],
        **(usual if definition is None else definition.steps(early=early)),
        lengths_s=conditions.stall_s,
        cuts_s=conditions.cut_s,
        lags_s=conditions.lag_s,
    )


def show_plan(planned: Sequence[PlannedFault]) -> None:
    """Print a plan."""
    sys.stdout.write(described(planned) + "\n")


def described(planned: Sequence[PlannedFault]) -> str:
    """A plan for people, a line a fault."""
    lines = []
    for number, one in enumerate(planned, 1):
        where = "" if one.step == "declared" else f", shard {one.shard}"
        where += f", {one.after_s:g} s later" * bool(one.after_s)
        lasts = f" for {one.planned_s:g} s" if one.planned_s else ""
        name = name_of(one.strike)
        lines.append(f"{number:3} {name:16} at {one.phase}{where}{lasts}, from epoch {one.after_epoch} on")
    return "\n".join(lines)


def needed(kind: str, strikes: Sequence[Strike], find: Callable[[], Path]) -> tuple[Path | None, str | None]:
    """What strikes of a kind need, where there are such, or else why it cannot be had."""
    if not any(one.kind == kind for one in strikes):
        return None, None
    try:
        return find(), None
    except ToolchainError as error:
        return None, str(error)


def run(seed: int, asked: Campaign) -> Results | None:
    """Run what the command line asks for; None: its plan was printed, and nothing done.

    Raises:
        NoFaultError: a fault is asked for that there is not.
        InputError: what is sent is none, or too little.
        UserError: something that a run needs is not to be had.
    """
    conditions, definition = asked.conditions, None
    strikes = asked_for(asked.faults, seed, EMBEDDED if asked.rate is None else UNPACED)
    if asked.is_defined:
        strikes = without_what_it_lacks(strikes, asked)
    file = file_of(asked)
    # The job without proof has no table.
    database = None if asked.unproven else find_postgres()
    if database is None and file is None:
        strikes = without_result_store(strikes, asked.faults)
    faketime, no_clock = needed(CLOCK, strikes, lambda: find_faketime(Cache(cache_root())))
    if no_clock is not None:
        strikes = without_clock(strikes, asked.faults, no_clock)
    strace, no_strace = needed(SLOW_DISK, strikes, find_strace)
    if no_strace is not None:
        strikes = without_slow_disks(strikes, asked.faults, no_strace)
    if file is None:
        subject = sent_by(seed, asked.records, strikes, conditions)
        if asked.plan:
            show_plan(planned_faults(seed, strikes, conditions))
            return None
    console = default_console()
    toolchain = prepare(console)
    if file is not None:
        definition = definition_of(asked, toolchain, console)
        subject, strikes = sent_to(definition, file, strikes, asked)
        if definition.has_tables and database is None:
            raise RunError(f"{definition.job.name} has tables. {HOW}")
        database = database if definition.has_tables else None
        if asked.plan:
            show_plan(planned_faults(seed, strikes, conditions, definition))
            return None
    elif database is None:
        why = "The job without proof has none." if asked.unproven else HOW
        console.say(f"… left out: the table of the pipeline, and faults of the result store. {why}")
    archive = class_archive(toolchain, console)
    for what, why_not in {"steps of the driver's clock": no_clock, "slow disks": no_strace}.items():
        if why_not is not None:
            console.say(f"… left out: {what}. {why_not}")
    return Chaos(
        CHECKOUT,
        toolchain,
        strikes,
        seed,
        subject,
        console,
        archive,
        asked.lengths,
        asked.controls,
        database,
        faketime,
        strace,
        conditions,
        definition,
    ).run()
