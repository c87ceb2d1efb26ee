"""One arm: a way with so many operators, from empty topics to its evidence."""

from __future__ import annotations

import shutil
import threading
from contextlib import suppress
from dataclasses import dataclass, field

from effectively_once.object_store import BucketAddress
from effectively_once_jobs.two_ways.settings import SNAPSHOTS
from infra.console import Console
from tests.bench.facts import load
from tests.experiments.ground import Cast, Ground, Role
from tests.experiments.two_ways.figures import FACTS, Facts
from tests.experiments.two_ways.outputs import Outputs
from tests.experiments.two_ways.parts import DRAIN_S, Parts, dead
from tests.experiments.two_ways.plan import Arm, Plan
from tests.harness.adapters.events import Watch
from tests.harness.history import History
from tests.harness.run_directory import RunDirectory
from tests.harness.workload.pacing import Pace, Pacer
from tests.harness.workload.progress import Progress
from tests.harness.workload.sender import Sender, Target, kafka_producer

JOB = "effectively_once_jobs.two_ways"
PARTITIONS = 2
EXECUTORS, NO_SPARK = 2, 1
"""An operator of dedup makes no Spark session and so has no executor; fewer cannot be asked for."""
SETTLED = Progress(ends=dict.fromkeys(range(PARTITIONS), 2**62))
"""There is no chain to wait for: the arm waits for its output itself."""


@dataclass
class Play:
    """One arm; whichever way `go` ends, no process of it is left.

    Attributes:
        directory: of this arm; evidence goes there.
        ground: where it runs.

    """

    directory: RunDirectory
    arm: Arm
    plan: Plan
    ground: Ground
    outputs: Outputs
    console: Console
    stop: threading.Event = field(default_factory=threading.Event)
    _cpu_s: dict[str, float] = field(default_factory=dict, init=False)

    @property
    def pipeline(self) -> str:
        """Name of the pipeline."""
        return self.ground.pipeline(f"ways_{self.arm.name}")

    def go(self) -> None:
        """Play it and write its evidence; what breaks it off is evidence too."""
        broke_off, before = None, load()
        with History(self.directory.history_path) as history:
            try:
                self._go(history)
                history.end()
            except Exception as error:
                broke_off = f"{type(error).__name__}: {error}"
                self.console.say(f"✗ {self.arm.name} broke off: {error}")
                history.record("phase", phase="broken off")
        self._collect(broke_off, before)

    def _go(self, history: History) -> None:
        ground, query = self.ground, self.arm.way == SNAPSHOTS
        # Of an arm that broke off.
        self.outputs.drop(self.pipeline)
        roles = (
            [self._role(0, "driver")]
            if query
            else [self._role(number, f"operator-{number}") for number in range(self.arm.operators)]
        )
        ground.create(self.directory, roles[0], PARTITIONS)
        cast = ground.cast(self.directory, history, JOB, roles, executors=EXECUTORS if query else NO_SPARK)
        with cast.followed(), self.directory.sent_writer() as lines:
            sender = Sender(
                kafka_producer(ground.endpoints.kafka_bootstrap),
                lines,
                Pacer(Pace(horizon_ms=None, max_outstanding=1_000_000)),
                lambda: SETTLED,
                unacknowledged=lambda *_: None,
                stop=self.stop,
                target=Target(self.pipeline, PARTITIONS, DRAIN_S),
            )
            self._start(cast)
            Parts(
                self.pipeline,
                self.arm,
                self.plan,
                sender,
                cast,
                history,
                self.outputs,
                self.console,
                self.stop,
                self._cpu_s,
            ).go()
            for one in cast.drivers:
                one.stop()

    def _start(self, cast: Cast) -> None:
        number = len(cast.drivers)
        with self.console.step(f"{self.arm.name}: {number} to start"):
            cast.start()
            cast.watch.wait_for(
                f"{number} processes",
                lambda: _started(cast.watch) >= number,
                self.ground.driver_s,
                lambda: dead(cast.drivers),
            )

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

    def _between(self) -> list[str]:
        """The topics between operators, of dedup."""
        between = range(1, self.arm.operators) if self.arm.way != SNAPSHOTS else ()
        return [f"{self.pipeline}.{number}" for number in between]

    def _collect(self, broke_off: str | None, before: float) -> None:
        from effectively_once.listing import S3ListingStore  # noqa: PLC0415 - it asks for credentials

        endpoints = self.ground.endpoints
        store = S3ListingStore(BucketAddress(endpoints.s3_endpoint, endpoints.s3_bucket))
        objects = [one.bytes for one in store.listed(f"{self.pipeline}/")]
        with suppress(Exception):  # an arm that broke off early has no table; its evidence is then missing, and told
            self.outputs.write(self.directory, self.pipeline)
        facts = Facts(
            way=self.arm.way,
            operators=self.arm.operators,
            catalog=self.arm.catalog,
            cpu_s=self._cpu_s,
            object_store_bytes=sum(objects),
            objects=len(objects),
            topics_bytes=self._topics_bytes(),
            load=(before, load()),
            broke_off=broke_off,
        )
        self.directory.write_json(self.directory.path / FACTS, facts)
        self.outputs.drop(self.pipeline)
        shutil.rmtree(self.directory.path / "work", ignore_errors=True)

    def _topics_bytes(self) -> int | None:
        if (data := self.ground.broker_data) is None:
            return None
        return sum(log.stat().st_size for topic in self._between() for log in data.glob(f"*/{topic}-*/*.log"))


def _started(watch: Watch) -> int:
    return sum(event["event"] == "driver" and event.get("state") == "started" for event in watch.seen)
