"""One arm: a way with so many operators, its parts one after the other, kills meanwhile, all of it in the output."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from effectively_once_jobs.two_ways.settings import SNAPSHOTS
from infra.console import Console
from infra.embedded.process import ServerError
from tests.experiments.arm import DRAIN_S, ArmPlay
from tests.experiments.pace import pace_out
from tests.experiments.two_ways.figures import Facts
from tests.experiments.two_ways.kills import OperatorKills
from tests.experiments.two_ways.outputs import Outputs
from tests.experiments.two_ways.plan import PACED, Arm, Part, Plan
from tests.harness.run_directory import RunDirectory
from tests.harness.stack.processes import Role
from tests.harness.stack.stack import Stack
from tests.harness.workload.record import Planned

JOB = "effectively_once_jobs.two_ways"
PARTITIONS = 2
EXECUTORS, NO_SPARK = 2, 1
"""An operator of dedup makes no Spark session and so has no executor; fewer cannot be asked for."""
ASK_S = 0.1


def play(run: Path, plan: Plan, arms: Sequence[str], stack: Stack, console: Console) -> None:
    """Play arms of a run one after the other."""
    with closing(Outputs(stack.database)) as outputs:
        for arm in plan.arms:
            if arm.name in arms:
                Play(RunDirectory((run / arm.name).absolute()), stack, console, arm, plan, outputs).play()


@dataclass
class Play(ArmPlay[Stack]):
    """One arm."""

    arm: Arm
    plan: Plan
    outputs: Outputs

    @property
    def pipeline(self) -> str:
        """Name of the pipeline."""
        return self.stack.pipeline(f"ways_{self.arm.name}")

    def go(self) -> None:
        """Play it.

        Raises:
            ServerError: a process does not come up any more.
            TimeoutError: records are not in the output in time.
            WaitTimedOutError: a process does not come up, or an operator that was killed does not go on.

        """
        # Of an arm that broke off.
        self.outputs.drop(self.pipeline)
        query, parts = self.arm.way == SNAPSHOTS, self.plan.parts(self.arm)
        names = ["driver"] if query else [f"operator-{number}" for number in range(self.arm.operators)]
        roles = [self._role(number, name) for number, name in enumerate(names)]
        stream = self.plan.stream(parts[-1].numbers.stop)
        with self.running(JOB, roles, PARTITIONS, executors=EXECUTORS if query else NO_SPARK):
            for part in parts:
                with self.part(part.name, f"{len(part.numbers):,} records, {part.kind}, {part.kills} kills"):
                    self._part(part, islice(stream, len(part.numbers)))
            self.history.record("phase", phase="end")

    def facts(self, **told: Any) -> Facts:
        """Note down what it left."""
        with suppress(Exception):  # an arm that broke off early has no table; its evidence is then missing, and told
            self.outputs.write(self.directory, self.pipeline)
        facts = Facts(
            way=self.arm.way,
            operators=self.arm.operators,
            catalog=self.arm.catalog,
            topics_bytes=self._topics_bytes(),
            **self.used(self.pipeline),
            **told,
        )
        self.outputs.drop(self.pipeline)
        return facts

    def _role(self, operator: int, name: str) -> Role:
        """One process: the query, or an operator."""
        return Role(
            {
                "pipeline": self.pipeline,
                "topic": self.pipeline,
                "job": JOB,
                "shards": PARTITIONS,
                "epoch_rows_max": self.plan.rows_max,
            },
            {
                "way": self.arm.way,
                "operators": self.arm.operators,
                "operator": operator,
                "catalog": self.arm.catalog,
            },
            name,
        )

    def _topics_bytes(self) -> int | None:
        """Bytes of the topics between operators, which dedup has."""
        if (data := self.stack.broker_data) is None:
            return None
        between = range(1, self.arm.operators) if self.arm.way != SNAPSHOTS else ()
        topics = [f"{self.pipeline}.{number}" for number in between]
        return sum(log.stat().st_size for topic in topics for log in data.glob(f"*/{topic}-*/*.log"))

    def _part(self, part: Part, records: Iterable[Planned]) -> None:
        drivers, strikes = self.processes.drivers, self.plan.strikes(self.arm, part)
        runs = {number: drivers[number % len(drivers)] for number in range(self.arm.operators)}
        kills = OperatorKills(
            part, strikes, runs, self.processes.watch, self.processes.hold, history=self.history, say=self.console.say
        )
        kills.start()
        try:
            self._send(
                part, pace_out(records, self.plan.pace, self.stop) if part.kind == PACED else kills.gate(records)
            )
        finally:
            kills.end()

    def _send(self, part: Part, records: Iterable[Planned]) -> None:
        """Send records, and wait until all that was sent is in the output."""
        self.send(records, len(part.numbers))
        deadline = time.monotonic() + DRAIN_S
        while (there := self.outputs.count(self.pipeline)) < self.sent:
            told = f"{there:,} of {self.sent:,} records are in the output"
            if (words := self.dead()) is not None:
                raise ServerError(f"{told}: {words}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"{told} after {DRAIN_S:.0f} s")
            if self.stop.wait(ASK_S):
                raise InterruptedError(told)
