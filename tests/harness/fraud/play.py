"""Plays a run on the embedded stack: phases of transactions, a kill in some, everything decided, all of it kept."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from effectively_once_jobs.fraud.roles import ROLES
from effectively_once_jobs.fraud.settings import FraudSettings
from infra.console import Console
from infra.embedded.postgres import PostgresServer
from infra.embedded.spark import SparkHome
from infra.embedded.stack import EmbeddedStack
from infra.toolchain.prepare import Toolchain
from tests.harness.adapters.embedded import ProcessDrivers
from tests.harness.adapters.events import Watch
from tests.harness.fraud.course import Course
from tests.harness.fraud.judge import ASKED
from tests.harness.fraud.outputs import Outputs
from tests.harness.fraud.plan import DEADLINE_MS, TARGET_MS, WINDOWS_MS, Phase
from tests.harness.fraud.presenter import Presenter
from tests.harness.fraud.sender import Sender
from tests.harness.fraud.topics import StampedTopics
from tests.harness.fraud.triggers import Triggers
from tests.harness.fraud.workload import cards, records
from tests.harness.history import History
from tests.harness.run_directory import LinesWriter, RunDirectory

JOB, PIPELINE, TOPIC = "effectively_once_jobs.fraud", "fraud", "transactions"
MEMORY_MIB = 512
START_S = 180.0


@dataclass
class Play:
    """One run; whichever way `go` ends, no process of it is left.

    Attributes:
        directory: where its files go.
        stack: broker and object store.
        store: the result store, which runs.
        phases: what is sent and killed.
        began_ms: the time of the first transaction.
        triggers: records that Spark's own triggers get afterwards; none, and they are left out.
    """

    directory: RunDirectory
    stack: EmbeddedStack
    store: PostgresServer
    toolchain: Toolchain
    phases: Sequence[Phase]
    seed: int
    began_ms: int
    console: Console
    class_archive: Path | None = None
    triggers: int = 0
    stop: threading.Event = field(default_factory=threading.Event)

    def go(self) -> None:
        """Run it, and write its evidence."""
        outputs = Outputs(self.store)
        outputs.make(cards())
        with ExitStack() as held:
            history = held.enter_context(History(self.directory.history_path))
            topics = StampedTopics(self.stack.endpoints.kafka_bootstrap)
            held.callback(topics.close)
            settings = self._settings()
            topics.make([settings.topic, settings.scores])
            environment = {"PYTHONPATH": str(self.toolchain.wheel.installed)}
            presenter = Presenter(settings.database, self.directory.logs / "presenter.log", environment)
            held.callback(presenter.stop)
            presenter.start()
            asked = held.enter_context(self.directory.observed_writer(ASKED))
            self._job(settings, history, outputs, presenter, asked)
            outputs.write(self.directory)
            if self.triggers:
                Triggers(self.directory, self._home(0), topics, history, self.console, self.stop).play(
                    list(islice(self._records(), self.triggers)), self.phases[0].rate
                )
            history.end()
        shutil.rmtree(self.directory.path / "work" / "spark", ignore_errors=True)

    def _job(
        self, settings: FraudSettings, history: History, outputs: Outputs, presenter: Presenter, asked: LinesWriter
    ) -> None:
        path = self.directory.path / "settings.json"
        self.directory.write_json(path, settings)
        watch = Watch(self.directory.path.absolute() / "work" / "events.jsonl", history)
        drivers = ProcessDrivers(self._home(len(ROLES)), JOB, watch.path)
        watch.start()
        try:
            with self.console.step("Spark places the roles", expected_s=20):
                drivers.start("driver", path)
                watch.wait_for("every role", lambda: _started(watch.seen) == set(ROLES), START_S, drivers.alive)
            with self.directory.sent_writer() as lines:
                sender = Sender(settings.kafka_bootstrap, settings.topic, lines, self.stop)
                course = Course(sender, watch, self.store, outputs, presenter, asked, history, self.console)
                stream = self._records()
                for number, phase in enumerate(self.phases):
                    course.phase(number, phase, stream)
            course.ask(self.seed, sum(one.records for one in self.phases))
            drivers.stop()
        finally:
            drivers.end()
            watch.stop()

    def _records(self) -> Iterator[tuple[str, bytes]]:
        due_ms, at = [], 0.0
        for phase in self.phases:
            for _ in range(phase.records):
                due_ms.append(at)
                at += 1000 / phase.rate
        return records(self.seed, self.began_ms, due_ms)

    def _home(self, executors: int) -> SparkHome:
        master = f"local-cluster[{executors},1,{MEMORY_MIB}]" if executors else "local[4]"
        return SparkHome(
            self.toolchain, self.stack.endpoints, self.directory.path, self.class_archive, master=master,
            memory_mib=MEMORY_MIB, long_lived=executors == 0,
        )  # fmt: skip

    def _settings(self) -> FraudSettings:
        endpoints = self.stack.endpoints
        windows: dict[str, Any] = {f"{name}_window_ms": window for name, window in WINDOWS_MS.items()}
        return FraudSettings(
            pipeline=PIPELINE, topic=TOPIC, job=JOB, kafka_bootstrap=endpoints.kafka_bootstrap,
            s3_endpoint=endpoints.s3_endpoint, s3_bucket=endpoints.s3_bucket, database=self.store.url,
            deadline_ms=DEADLINE_MS, target_ms=TARGET_MS, **windows,
        )  # fmt: skip


def _started(seen: Sequence[dict[str, Any]]) -> set[str]:
    return {one["role"] for one in seen if one["event"] == "role" and one["state"] == "started"}
