"""One arm of a comparison: the job under one semantics, from an empty topic to its evidence."""

from __future__ import annotations

import shutil
import threading
from dataclasses import dataclass, field

from effectively_once.object_store import BucketAddress
from effectively_once_jobs.system_usage.settings import ACKNOWLEDGED, Semantics
from effectively_once_jobs.system_usage.snapshots import Snapshots, Totals
from infra.console import Console
from tests.bench.facts import load
from tests.experiments.compare.figures import FACTS, Counts, Facts
from tests.experiments.compare.outputs import Outputs
from tests.experiments.compare.parts import DRAIN_S, Play
from tests.experiments.compare.plan import EPOCH_ROWS, LATENESS_MS, Plan
from tests.experiments.ground import Ground, Role
from tests.harness.act import PARTITIONS
from tests.harness.history import History
from tests.harness.run_directory import RunDirectory
from tests.harness.workload.pacing import Pace, Pacer
from tests.harness.workload.progress import Progress
from tests.harness.workload.record import Planned
from tests.harness.workload.sender import Sender, Target, kafka_producer

JOB = "effectively_once_jobs.system_usage"
SHARDS = 2
SETTLED = Progress(ends=dict.fromkeys(range(PARTITIONS), 2**62))
"""There is no chain to wait for: what was sent counts as settled at once, and the arm waits for itself."""


@dataclass
class Arm:
    """One semantics; whichever way `play` ends, no process of it is left.

    Attributes:
        directory: of this arm; evidence goes there.
        semantics: of the job.
        plan: what is sent and struck.
        ground: where it runs.
        outputs: the result store.

    """

    directory: RunDirectory
    semantics: Semantics
    plan: Plan
    ground: Ground
    outputs: Outputs
    console: Console
    stop: threading.Event = field(default_factory=threading.Event)
    _load: float = field(default=0.0, init=False)
    _cpu_s: dict[str, float] = field(default_factory=dict, init=False)

    @property
    def pipeline(self) -> str:
        """Name of the pipeline."""
        return self.ground.pipeline(f"usage_{self.semantics}")

    def play(self) -> None:
        """Play it and write its evidence; what breaks it off is evidence too."""
        broke_off, self._load = None, load()
        with History(self.directory.history_path) as history:
            try:
                self._play(history)
                history.end()
            except Exception as error:
                broke_off = f"{type(error).__name__}: {error}"
                self.console.say(f"✗ {self.semantics} broke off: {error}")
                history.record("phase", phase="broken off")
        self._collect(broke_off)

    def _play(self, history: History) -> None:
        role, ground = self._role(), self.ground
        ground.create(self.directory, role, PARTITIONS)
        cast = ground.cast(self.directory, history, JOB, [role])
        drivers = cast.drivers[0]

        def unacknowledged(record: Planned, error: str) -> None:
            history.record("unacknowledged", id=record.id, error=error)

        with cast.followed(), self.directory.sent_writer() as lines:
            sender = Sender(
                kafka_producer(ground.endpoints.kafka_bootstrap),
                lines,
                Pacer(Pace(horizon_ms=None, max_outstanding=self.plan.records + 2)),
                lambda: SETTLED,
                unacknowledged=unacknowledged,
                stop=self.stop,
                target=Target(self.pipeline, PARTITIONS, DRAIN_S),
            )
            cast.start()
            cast.watch.wait_for("the driver", lambda: bool(cast.watch.seen), ground.driver_s, drivers.alive)
            Play(
                self.semantics,
                self.pipeline,
                self.plan,
                sender,
                cast,
                history,
                self.outputs,
                self.console,
                self.stop,
                self._cpu_s,
            ).go()
            drivers.stop()

    def _role(self) -> Role:
        own = {"time_out_s": self.plan.time_out_s} if self.semantics == ACKNOWLEDGED else {}
        return Role(
            {
                "pipeline": self.pipeline,
                "topic": self.pipeline,
                "job": JOB,
                "shards": SHARDS,
                "lateness_ms": LATENESS_MS,
                "epoch_rows_max": EPOCH_ROWS,
            },
            {"semantics": self.semantics, **own},
        )

    def _collect(self, broke_off: str | None) -> None:
        from effectively_once.listing import S3ListingStore  # noqa: PLC0415 - it asks for credentials

        endpoints = self.ground.endpoints
        store = S3ListingStore(BucketAddress(endpoints.s3_endpoint, endpoints.s3_bucket))
        objects = [one.bytes for one in store.listed(f"{self.pipeline}/")]
        totals = Totals()
        kept = Snapshots(store, self.pipeline).restore(totals) >= 0
        facts = Facts(
            semantics=self.semantics,
            cpu_s=self._cpu_s,
            object_store_bytes=sum(objects),
            objects=len(objects),
            tables_bytes=self.outputs.write(self.directory, self.pipeline),
            load=(self._load, load()),
            broke_off=broke_off,
            state=Counts(**totals.get_state()) if kept else None,
        )
        self.directory.write_json(self.directory.path / FACTS, facts)
        self.outputs.drop(self.pipeline)
        shutil.rmtree(self.directory.path / "work", ignore_errors=True)
