"""Plays a run: phases of transactions, a kill in some of them, everything decided, and all of it kept."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from effectively_once_jobs.fraud.roles import ROLES
from infra.console import Console
from infra.embedded.spark import SparkHome
from tests.experiments.fraud.course import Course
from tests.experiments.fraud.judge import ASKED
from tests.experiments.fraud.outputs import Outputs
from tests.experiments.fraud.plan import DEADLINE_MS, HELD_MAX, STORE_DOWN_S, TARGET_MS, WINDOWS_MS, Phase
from tests.experiments.fraud.sender import Sender
from tests.experiments.fraud.store import Presenting, fall_of, presenter_on
from tests.experiments.fraud.topics import StampedTopics
from tests.experiments.fraud.triggers import Triggers
from tests.experiments.fraud.workload import cards, records
from tests.harness.history import History
from tests.harness.run_directory import LinesWriter, RunDirectory
from tests.harness.stack.embedded import ProcessStack
from tests.harness.stack.processes import Processes, Role
from tests.harness.stack.stack import Stack

JOB, PIPELINE = "effectively_once_jobs.fraud", "fraud"
MEMORY_MIB = 512
"""Of an executor, where all of them are on this machine."""


@dataclass
class Play:
    """One run; whichever way `go` ends, no process of it is left.

    Attributes:
        directory: where its files go.
        stack: where it is played.
        phases: what is sent and killed.
        began_ms: the time of the first transaction.
        held_max: of the job's settings.
        triggers: records that Spark's own triggers get afterwards; none, and they are left out.
        store_down_s: how long the result store is away when it is killed, where that is ours to choose.
    """

    directory: RunDirectory
    stack: Stack
    phases: Sequence[Phase]
    seed: int
    began_ms: int
    console: Console
    held_max: int = HELD_MAX
    triggers: int = 0
    store_down_s: float = STORE_DOWN_S
    stop: threading.Event = field(default_factory=threading.Event)

    def go(self) -> None:
        """Run it, and write its evidence."""
        stack, presenter = self.stack, presenter_on(self.stack, self.directory)
        outputs, role = Outputs(stack.database), self._role()
        outputs.make(cards())
        with ExitStack() as held:
            held.callback(outputs.drop)
            history = held.enter_context(History(self.directory.history_path))
            topics = StampedTopics(stack.endpoints.kafka_bootstrap, stack.replication)
            held.callback(topics.close)
            # The job's name for its scores is effectively_once_jobs.fraud.settings.
            topics.make([role.settings["topic"], f"{role.settings['pipeline']}.scores"])
            held.callback(presenter.stop)
            with self.console.step("presenter"):
                presenter.start()
            asked = held.enter_context(self.directory.observed_writer(ASKED))
            self._job(role, history, outputs, asked, presenter)
            outputs.write(self.directory)
            if self.triggers and isinstance(stack, ProcessStack):
                Triggers(self.directory, self._home(stack), topics, history, self.console, self.stop).play(
                    list(islice(self._records(), self.triggers)), self.phases[0].rate
                )
            history.end()
        shutil.rmtree(self.directory.path / "work" / "spark", ignore_errors=True)

    def _home(self, stack: ProcessStack) -> SparkHome:
        """Where Spark's own triggers run."""
        return SparkHome(
            stack.toolchain,
            stack.endpoints,
            self.directory.path,
            master="local[4]",
            memory_mib=MEMORY_MIB,
            long_lived=True,
        )

    def _job(self, role: Role, history: History, outputs: Outputs, asked: LinesWriter, presenter: Presenting) -> None:
        stack, directory = self.stack, self.directory
        memory_mib = MEMORY_MIB if isinstance(stack, ProcessStack) else None
        processes = stack.prepare(directory, history, JOB, [role], executors=len(ROLES), memory_mib=memory_mib)
        # Nobody asks for processor time here, and measuring it would take some from the decisions.
        processes = replace(processes, cpu=None)
        with processes.following(), directory.sent_writer() as lines:
            with self.console.step("Spark places the roles", expected_s=20):
                processes.start()
                processes.watch.wait_for(
                    "every role",
                    lambda: _started(processes) == set(ROLES),
                    stack.patience.driver_s,
                    processes.drivers[0].alive,
                )
            sender = Sender(stack.endpoints.kafka_bootstrap, role.settings["topic"], lines, self.stop)
            fall = fall_of(stack, self.store_down_s)
            course = Course(sender, processes, fall, outputs, presenter, asked, history, self.console)
            stream = self._records()
            for number, phase in enumerate(self.phases):
                course.phase(number, phase, stream)
            course.ask(self.seed, sum(one.records for one in self.phases))
            processes.drivers[0].stop()

    def _records(self) -> Iterator[tuple[str, bytes]]:
        due_ms, at = [], 0.0
        for phase in self.phases:
            for _ in range(phase.records):
                due_ms.append(at)
                at += 1000 / phase.rate
        return records(self.seed, self.began_ms, due_ms)

    def _role(self) -> Role:
        pipeline = self.stack.pipeline(PIPELINE)
        windows: dict[str, Any] = {f"{name}_window_ms": window for name, window in WINDOWS_MS.items()}
        return Role(
            {"pipeline": pipeline, "topic": f"transactions_{pipeline}", "job": JOB},
            {"deadline_ms": DEADLINE_MS, "target_ms": TARGET_MS, "held_max": self.held_max, **windows},
        )


def _started(processes: Processes) -> set[str]:
    seen = processes.watch.seen
    return {one["role"] for one in seen if one["event"] == "role" and one["state"] == "started"}
