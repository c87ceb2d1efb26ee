"""The demo: a pipeline under SIGKILL on one machine, its epilogue, its controls, and the verdict."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from effectively_once.settings import PipelineSettings
from infra.console import Console
from infra.embedded.spark import SparkHome
from infra.embedded.stack import EmbeddedStack, Endpoints
from infra.toolchain.prepare import Toolchain
from tests.harness.act import Act
from tests.harness.adapters.embedded import ProcessDrivers
from tests.harness.adapters.events import Watch
from tests.harness.adapters.transactions import open_transactions
from tests.harness.controls.embedded import play as play_controls
from tests.harness.history import History
from tests.harness.manifest import NEGATIVE_CONTROLS, manifest_of
from tests.harness.place import Place
from tests.harness.recorded import run_recorded
from tests.harness.results import Results
from tests.harness.run_directory import RunDirectory
from tests.harness.schedule import plan
from tests.harness.subject import Subject

PIPELINE, TOPIC, SHARDS = "user_counts", "events", 2
JOB = "effectively_once_jobs.user_counts"
CLAIM = (
    "Every event in time is counted exactly once per user and minute, whichever executors are killed: "
    "no sink misses, doubles, invents or alters a record."
)


@dataclass
class Demo:
    """One run from start to verdict; whichever way `run` ends, no process is left."""

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
        return run_recorded(
            self.checkout, self.seed, self.subject.says, self.console, manifest=self._manifest, play=self._play
        )

    def _play(self, directory: RunDirectory) -> None:
        """Run the part that needs servers, and write its evidence."""
        stack = EmbeddedStack(directory.path, self.toolchain, self.console.say)
        with History(directory.history_path) as history, stack:
            os.environ["AWS_ACCESS_KEY_ID"] = stack.endpoints.s3_access_key
            os.environ["AWS_SECRET_ACCESS_KEY"] = stack.endpoints.s3_secret_key
            tools, bootstrap = self.toolchain, stack.endpoints.kafka_bootstrap
            home = SparkHome(tools, stack.endpoints, directory.path, self.class_archive)
            watch = Watch(directory.path / "work" / "events.jsonl", history)
            settings = pipeline_settings(stack.endpoints, self.subject)
            place = Place(stack.endpoints, settings, ProcessDrivers(home, JOB, watch.path), watch)
            Act(
                directory, history, place, self.subject, console=self.console, stop=self.stop,
                faults=plan(self.seed, self.kills, SHARDS, **self.subject.fault_gates),
                open_transactions=lambda: open_transactions(tools.java, tools.kafka_classpath, bootstrap),
                beside_epilogue=lambda: self._controls(directory, home),
            ).go()  # fmt: skip
            history.end()

    def _controls(self, directory: RunDirectory, home: SparkHome) -> None:
        play_controls(directory, home, self.checkout, seed=self.seed, console=self.console, stop=self.stop)

    def _manifest(self, name: str) -> dict[str, Any]:
        return manifest_of(
            name, CLAIM, self.seed, self.subject, checkout=self.checkout, pipeline=PIPELINE, topic=TOPIC, shards=SHARDS,
            faults_planned=self.kills, controls=NEGATIVE_CONTROLS, named=self.subject.named,
        )  # fmt: skip


def pipeline_settings(endpoints: Endpoints, subject: Subject) -> PipelineSettings:
    """The settings file's content for a stack and what is to be sent."""
    return PipelineSettings(
        pipeline=PIPELINE, topic=TOPIC, job=JOB, kafka_bootstrap=endpoints.kafka_bootstrap, shards=SHARDS,
        s3_endpoint=endpoints.s3_endpoint, s3_bucket=endpoints.s3_bucket, window_ms=subject.window_ms,
        lateness_ms=subject.lateness_ms, epoch_rows_max=subject.epoch_rows_max,
    )  # fmt: skip
