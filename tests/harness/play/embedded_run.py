"""One run on this machine: a pipeline on the embedded stack, struck as planned, the controls, and the verdict."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from effectively_once.pipeline.settings import PipelineSettings
from infra.console import Console
from infra.embedded.postgres import PostgresServer
from infra.embedded.spark import SparkHome
from infra.embedded.stack import EmbeddedStack, Endpoints
from infra.toolchain.prepare import Toolchain
from tests.harness import with_requests
from tests.harness.act import Act
from tests.harness.adapters.driver_clock import DriverClock, with_clock
from tests.harness.adapters.driver_metrics import ANY_PORT
from tests.harness.adapters.events import Watch
from tests.harness.adapters.hold import Hold
from tests.harness.adapters.job_home import JobHome
from tests.harness.adapters.spark_requests import SparkRequests
from tests.harness.adapters.store_link import StoreLink
from tests.harness.adapters.supervised import SupervisedDrivers
from tests.harness.adapters.tables import Tables
from tests.harness.adapters.transactions import open_transactions
from tests.harness.collector import Outputs
from tests.harness.conditions import USUAL, Conditions
from tests.harness.controls.embedded import play as play_controls
from tests.harness.definition.packaged import JOB, USER_COUNTS, AnyPipeline
from tests.harness.faults.arsenal import TRANSACTION_TIMEOUT_S, EmbeddedArsenal, Lengths
from tests.harness.faults.lag import lags_of
from tests.harness.faults.slow_disk_arsenal import slow_disks_of
from tests.harness.history import History
from tests.harness.manifest import manifest_of, planned_controls
from tests.harness.mixture import name_of
from tests.harness.play.cut_links import CutLinks, cut_links
from tests.harness.play.inquired import inquiry_of
from tests.harness.play.planned import planned_faults
from tests.harness.play.recorded import run_recorded
from tests.harness.play.way_out import WayOut
from tests.harness.results import Results
from tests.harness.run_directory import RunDirectory
from tests.harness.schedule import PlannedFault, Strike
from tests.harness.spread import EXECUTORS, HEAP_MIB, PARTITIONS
from tests.harness.stack.embedded import ProcessStack
from tests.harness.stack.servers import linked, result_store
from tests.harness.stall_sorts import asks_spark
from tests.harness.subject import Subject


@dataclass
class EmbeddedRun:
    """One campaign from start to verdict; whichever way `run` ends, every fault is undone and no process is left.

    Attributes:
        checkout: where `runs/` is.
        toolchain: of the embedded stack.
        strikes: what is done, in any order.
        seed: draws what is sent, and when what is done.
        subject: what is sent.
        console: tells what is under way.
        pipeline: what is struck.
        class_archive: folder of shared class data of the JVMs.
        lengths: of faults that last.
        database: the folder of PostgreSQL's programs; without it the pipeline has no table.
        faketime: libfaketime; without it no clock can be stepped.
        strace: without it no disk can be slowed.
        conditions: under which the pipeline runs.
        stop: set from outside to end early.
    """

    checkout: Path
    toolchain: Toolchain
    strikes: Sequence[Strike]
    seed: int
    subject: Subject
    console: Console
    pipeline: AnyPipeline = USER_COUNTS
    class_archive: Path | None = None
    lengths: Lengths = field(default_factory=Lengths)
    database: Path | None = None
    faketime: Path | None = None
    strace: Path | None = None
    conditions: Conditions = USUAL
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self, says: str) -> Results:
        """Run it all and judge it; a run that broke off is judged too, by what there is (see `run_recorded`).

        Args:
            says: what is struck, for the console.

        Raises:
            NoFaultError: a fault needs a step that the pipeline does not have; nothing was started.
        """
        planned = planned_faults(self.seed, self.strikes, self.conditions, self.pipeline)
        return run_recorded(
            self.checkout,
            self.seed,
            f"{self.subject.says}; {says}",
            self.console,
            manifest=self._manifest,
            play=lambda directory: self._play(directory, planned),
        )

    def _play(self, directory: RunDirectory, planned: Sequence[PlannedFault]) -> None:
        """Run the part that needs servers, and write its evidence."""
        # Tests play it in the process of others, whose object store has other credentials.
        with (
            History(directory.history_path) as history,
            cut_links(self.strikes) as cuts,
            EmbeddedStack(
                directory.path,
                self.toolchain,
                self.console.say,
                kafka_link=cuts.broker_port,
                class_archive=self.class_archive,
            ) as servers,
            linked(servers) as link,
            result_store(directory, self.database) as database,
            patch.dict(os.environ, servers.endpoints.credentials),
        ):
            hold = Hold(directory.path / "work" / "points")
            os.environ.update(hold.env)
            tools, bootstrap = self.toolchain, servers.endpoints.kafka_bootstrap
            stack = ProcessStack(
                tools, servers.endpoints, database, self.class_archive, directory.path, self.console.say
            )
            home = self._home(directory, stack.endpoints)
            watch = Watch(directory.path / "work" / "events.jsonl", history)
            if self.subject.gateways:
                os.environ.update(ANY_PORT)
            requests = self._requests(directory)
            clock = self._clock(directory)
            drivers = self._drivers(with_clock(home, clock), watch, history, asked=requests is not None)
            if self.conditions.repair:
                drivers.way_out = self._way_out(home, drivers, directory).take
            settings = self._settings(servers, cuts, link, database)
            act = Act(
                directory,
                history,
                stack,
                self.subject,
                settings=settings,
                drivers=drivers,
                watch=watch,
                console=self.console,
                stop=self.stop,
                faults=planned,
                arsenal=EmbeddedArsenal(
                    drivers,
                    watch,
                    servers.kafka,
                    servers.object_store,
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
                    slow_disks_of(self.strace, directory.logs / "strace.log", stack.endpoints, database)
                    if self.strace
                    else None,
                    lags_of(self.subject, self.seed),
                    seed=self.seed,
                    say=self.console.say,
                ),
                open_transactions=lambda: open_transactions(tools.java, tools.kafka_classpath, bootstrap),
                beside=lambda: self._controls(directory, home),
                partitions=PARTITIONS,
                outputs=self._outputs(directory, settings, home, database),
            )
            packages = f"{tools.wheel.installed}:{self.checkout}"
            asks = self.subject.gateways
            with inquiry_of(directory, stack.endpoints, settings, drivers, packages) if asks else nullcontext():
                act.go()
            history.end()

    def _home(self, directory: RunDirectory, endpoints: Endpoints) -> JobHome:
        return JobHome(
            self.toolchain,
            endpoints,
            directory.path,
            self.class_archive,
            memory_mib=HEAP_MIB,
            executors=EXECUTORS,
            conf=self.conditions.spark,
            environment=self.pipeline.environment,
        )

    def _requests(self, directory: RunDirectory) -> SparkRequests | None:
        """Where the drivers are asked, where that is part of the plan: nothing runs beside the job otherwise."""
        if not asks_spark(self.strikes):
            return None
        requests = SparkRequests(directory.path.absolute() / "work" / "requests")
        os.environ.update(requests.env)
        return requests

    def _clock(self, directory: RunDirectory) -> DriverClock | None:
        offset = directory.path.absolute() / "work" / "clock" / "offset"
        return None if self.faketime is None else DriverClock(self.faketime, offset)

    def _drivers(self, home: SparkHome, watch: Watch, history: History, *, asked: bool) -> SupervisedDrivers:
        module, beside = self.pipeline.module, self.pipeline.beside
        if asked:
            module, beside = with_requests.MODULE, self.checkout
        return SupervisedDrivers(home, module, watch.path, beside, history=history, say=self.console.say)

    def _way_out(self, home: JobHome, drivers: SupervisedDrivers, directory: RunDirectory) -> WayOut:
        def with_proof() -> None:
            if drivers.module != with_requests.MODULE:
                drivers.module = JOB

        return WayOut(home, directory.path.absolute() / "settings.json", JOB, with_proof)

    def _settings(
        self, stack: EmbeddedStack, cuts: CutLinks, link: StoreLink, database: PostgresServer | None
    ) -> PipelineSettings:
        # The pipeline reaches its store by the link, and every server that is cut off by one too; the harness goes
        # straight to them.
        kafka, store, results = cuts.between(
            stack.endpoints.kafka_bootstrap,
            stack.kafka.link_port,
            link.endpoint,
            None if database is None else database.url,
        )
        own = {
            "kafka_bootstrap": kafka,
            "s3_endpoint": store,
            "transaction_timeout_s": TRANSACTION_TIMEOUT_S,
            "database": results or None,
            **self.conditions.pipeline(self.subject.gateways),
        }
        return self.pipeline.settings_on(stack.endpoints, self.subject, own)

    def _outputs(
        self, directory: RunDirectory, settings: PipelineSettings, home: JobHome, database: PostgresServer | None
    ) -> Outputs:
        tables = None if database is None else Tables(database, settings.pipeline)
        return self.pipeline.outputs(
            directory, settings, home.endpoints, tables, lambda path: home.create(path, PARTITIONS)
        )

    def _controls(self, directory: RunDirectory, home: JobHome) -> None:
        if controls := self.pipeline.controls:
            play_controls(
                directory,
                home,
                self.checkout,
                seed=self.seed,
                console=self.console,
                stop=self.stop,
                controls=controls,
            )

    def _manifest(self, name: str) -> dict[str, Any]:
        of_pipeline = self.pipeline.in_manifest(self.subject)
        of_pipeline["named"] |= {"faults": ",".join(map(name_of, self.strikes)), **self.conditions.named}
        return manifest_of(
            name,
            seed=self.seed,
            subject=self.subject,
            checkout=self.checkout,
            strikes=self.strikes,
            controls=planned_controls(self.pipeline.controls),
            **of_pipeline,
        )
