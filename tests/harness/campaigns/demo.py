"""The demo: a pipeline under SIGKILL, now and then a stall or a cut, on one machine; epilogue, controls, verdict."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from infra.console import Console
from infra.embedded.spark import SparkHome
from infra.embedded.stack import EmbeddedStack
from infra.toolchain.prepare import Toolchain
from tests.harness import cut_sorts, stall_sorts
from tests.harness.act import Act
from tests.harness.adapters.embedded import ProcessDrivers
from tests.harness.adapters.events import Watch
from tests.harness.adapters.supervised import SupervisedDrivers
from tests.harness.adapters.transactions import open_transactions
from tests.harness.campaigns.strikes import KILLS_OF_THE_DEMO, at_their_steps, count_by_kind, one_of
from tests.harness.controls.embedded import play as play_controls
from tests.harness.definition.packaged import JOB, PIPELINE, SHARDS, TOPIC, pipeline_settings
from tests.harness.faults.arsenal import Arsenal, ExecutorArsenal
from tests.harness.faults.kills import Kills
from tests.harness.history import History
from tests.harness.lengths import with_lengths
from tests.harness.manifest import NEGATIVE_CONTROLS, manifest_of
from tests.harness.play.cut_links import CutLinks, cut_links
from tests.harness.play.recorded import run_recorded
from tests.harness.results import Results
from tests.harness.run_directory import RunDirectory
from tests.harness.schedule import PlannedFault, plan
from tests.harness.stack.embedded import ProcessStack
from tests.harness.stack.stack import Patience
from tests.harness.subject import Subject

CLAIM = (
    "Every event in time is counted exactly once per user and minute, whichever executors are killed: "
    "no sink misses, doubles, invents or alters a record."
)
CLAIM_BEYOND = CLAIM.replace(
    "executors are killed", "of executors, driver, workers, broker and store are killed, stall or are cut off"
)
PATIENCE = Patience(replaced_s=120.0)
"""A driver and its executors take longer to replace than an executor."""


@dataclass
class Demo:
    """One run from start to verdict; whichever way `run` ends, no process is left.

    Of several kills of a seeded stream one is of another role than an executor's, a stall of one, or a cut between the
    pipeline and a server, drawn from the seed. A user's file may be too short for that: there executors are killed
    alone.
    """

    checkout: Path
    toolchain: Toolchain
    subject: Subject
    seed: int
    kills: int
    console: Console
    class_archive: Path | None = None
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> Results:
        """Run it all and judge it; a run that broke off is judged too, by what there is (see `run_recorded`)."""
        says = f"{self.subject.says}; {count_by_kind(one.strike for one in self.planned)}"
        return run_recorded(self.checkout, self.seed, says, self.console, manifest=self._manifest, play=self._play)

    @property
    def beyond(self) -> bool:
        """Whether one kill is of another role, a stall, or a cut."""
        return self.kills > 1 and self.subject.kind == "seeded"

    @property
    def planned(self) -> Sequence[PlannedFault]:
        """The kills, in their order."""
        kills = plan(self.seed, self.kills, SHARDS, **self.subject.fault_gates)
        if self.beyond:
            at = random.Random(f"which kill of {self.seed}").randrange(self.kills)
            kills[at] = replace(kills[at], strike=one_of(KILLS_OF_THE_DEMO, self.seed))
        kills = at_their_steps(kills, self.seed)
        return with_lengths(kills, self.seed, stall_sorts.SHORT_S, cut_sorts.SHORT_S)

    def _play(self, directory: RunDirectory) -> None:
        """Run the part that needs servers, and write its evidence."""
        with (
            History(directory.history_path) as history,
            cut_links([one.strike for one in self.planned]) as cuts,
            EmbeddedStack(
                directory.path,
                self.toolchain,
                self.console.say,
                kafka_link=cuts.broker_port,
                class_archive=self.class_archive,
            ) as servers,
            patch.dict(os.environ, servers.endpoints.credentials),
        ):
            tools, bootstrap = self.toolchain, servers.endpoints.kafka_bootstrap
            stack = ProcessStack(
                tools, servers.endpoints, None, self.class_archive, directory.path, self.console.say, PATIENCE
            )
            home = SparkHome(tools, stack.endpoints, directory.path, self.class_archive)
            watch = Watch(directory.path / "work" / "events.jsonl", history)
            # A server that is to be cut off is reached by its link; the harness goes straight to it.
            kafka, store, _ = cuts.between(bootstrap, servers.kafka.link_port, stack.endpoints.s3_endpoint, None)
            reached = replace(stack.endpoints, kafka_bootstrap=kafka, s3_endpoint=store)
            settings = pipeline_settings(reached, self.subject)
            drivers, arsenal = self._drivers(home, watch, servers, history, cuts)
            Act(
                directory,
                history,
                stack,
                self.subject,
                settings=settings,
                drivers=drivers,
                watch=watch,
                console=self.console,
                stop=self.stop,
                faults=self.planned,
                arsenal=arsenal,
                open_transactions=lambda: open_transactions(tools.java, tools.kafka_classpath, bootstrap),
                beside=lambda: self._controls(directory, home),
                early=True,
            ).go()
            history.end()

    def _drivers(
        self, home: SparkHome, watch: Watch, stack: EmbeddedStack, history: History, cuts: CutLinks
    ) -> tuple[ProcessDrivers, Arsenal]:
        """Who starts drivers, and what strikes. Where executors are struck alone, a driver that ends is the end."""
        if not self.beyond:
            alone = ProcessDrivers(home, JOB, watch.path)
            return alone, ExecutorArsenal(alone)
        drivers = SupervisedDrivers(home, JOB, watch.path, history=history, say=self.console.say)
        servers = stack.kafka, stack.object_store
        return drivers, Kills(drivers, watch, *servers, cuts.links, seed=self.seed, say=self.console.say)

    def _controls(self, directory: RunDirectory, home: SparkHome) -> None:
        play_controls(directory, home, self.checkout, seed=self.seed, console=self.console, stop=self.stop)

    def _manifest(self, name: str) -> dict[str, Any]:
        return manifest_of(
            name,
            CLAIM_BEYOND if self.beyond else CLAIM,
            self.seed,
            self.subject,
            checkout=self.checkout,
            pipeline=PIPELINE,
            topic=TOPIC,
            shards=SHARDS,
            strikes=[one.strike for one in self.planned],
            controls=NEGATIVE_CONTROLS,
            named=self.subject.named,
        )
