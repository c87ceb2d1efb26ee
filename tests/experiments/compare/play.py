"""One arm of a comparison: the job under one semantics, its parts one after the other, kills while the last is sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from effectively_once_jobs.system_usage.look_up import LOOKED_UP
from effectively_once_jobs.system_usage.settings import ACKNOWLEDGED, ALL
from effectively_once_jobs.system_usage.snapshots import Snapshots, Totals
from infra.console import Console
from tests.experiments.arm import ArmPlay, wait_until_done
from tests.experiments.compare.figures import Counts, Facts
from tests.experiments.compare.outputs import Outputs
from tests.experiments.compare.plan import BURST, EPOCH_ROWS, LATENESS_MS, STRUCK, WARM_UP, Plan
from tests.experiments.kills import Gate, Kills
from tests.experiments.pace import pace_out
from tests.experiments.strikes import DRIVER, EXECUTOR
from tests.harness.act import PARTITIONS
from tests.harness.run_directory import RunDirectory
from tests.harness.stack.processes import Role
from tests.harness.stack.stack import Stack
from tests.harness.workload.record import Planned
from tests.harness.workload.seeded import closers

JOB = "effectively_once_jobs.system_usage"
SHARDS = 2


def _looked_up(event: Mapping[str, Any]) -> bool:
    return bool(event["event"] == LOOKED_UP)


LOOK_UPS = Gate("look-up", _looked_up, {EXECUTOR: (LOOKED_UP, {}), DRIVER: (LOOKED_UP, {})})


def play(run: Path, plan: Plan, arms: Sequence[str], stack: Stack, console: Console) -> None:
    """Play semantics of a run one after the other."""
    outputs = Outputs(stack.database)
    outputs.make((one.id, plan.is_fraud(one.id)) for one in plan.stream() if one.kind == "fresh" and one.id)
    try:
        for semantics in arms:
            Play(RunDirectory(run / semantics), stack, console, plan, outputs).play()
    finally:
        outputs.drop()


@dataclass
class Play(ArmPlay[Stack]):
    """One semantics, whose name is that of the arm; `outputs` is the result store."""

    plan: Plan
    outputs: Outputs

    @property
    def pipeline(self) -> str:
        """Name of the pipeline; also in the log of look-ups."""
        return self.stack.pipeline(f"usage_{self.name}")

    def go(self) -> None:
        """Play it.

        Raises:
            WaitTimedOutError: the job was not done with what was sent, or a driver does not come up.
            ServerError: what was killed was not replaced.

        """
        stream = self.plan.stream()
        with self.running(JOB, [self._role()], PARTITIONS):
            for part, numbers in self.plan.parts.items():
                records: Iterable[Planned] = islice(stream, len(numbers))
                if part not in (WARM_UP, BURST):
                    records = pace_out(records, self.plan.pace, self.stop)
                with self.part(part, f"{len(numbers):,} records, {part}"):
                    (self._strike if part == STRUCK else self._send)(records, len(numbers))
            self.history.record("phase", phase="drain")
            latest = self.sender.last_event_time_ms
            assert latest is not None, "there are transactions among so many records"
            for one in closers(latest, self.plan.records, lateness_ms=LATENESS_MS):
                # Each is in an epoch of its own: the second one has the watermark that closes all windows.
                self._send([one], 1)

    def facts(self, **told: Any) -> Facts:
        """Note down what it left."""
        totals = Totals()
        kept = Snapshots(self.store, self.pipeline).restore(totals) >= 0
        state = Counts(**totals.get_state()) if kept else None
        size = self.outputs.write(self.directory, self.pipeline)
        self.outputs.drop(self.pipeline)
        semantics = next(one for one in ALL if one == self.name)
        return Facts(semantics=semantics, tables_bytes=size, state=state, **self.used(self.pipeline), **told)

    def _role(self) -> Role:
        own = {"time_out_s": self.plan.time_out_s} if self.name == ACKNOWLEDGED else {}
        return Role(
            {
                "pipeline": self.pipeline,
                "topic": self.pipeline,
                "job": JOB,
                "shards": SHARDS,
                "lateness_ms": LATENESS_MS,
                "epoch_rows_max": EPOCH_ROWS,
            },
            {"semantics": self.name, **own},
        )

    def _strike(self, records: Iterable[Planned], number: int) -> None:
        """Send records while look-ups fail and processes are killed."""
        self.outputs.fails(self.pipeline, self.plan.seed, self.plan.rate)
        kills = Kills(self.plan.strikes, self.processes, LOOK_UPS, history=self.history, say=self.console.say)
        kills.start()
        try:
            self._send(records, number)
        finally:
            kills.stop_asked.set()
            kills.join()
            self.outputs.fails(self.pipeline, 0, 0.0)
        kills.end()

    def _send(self, records: Iterable[Planned], number: int) -> None:
        """Send records, and wait until the job is done with all that was sent."""
        self.send(records, number)
        wait_until_done(self.processes, self.name, self.sent)
