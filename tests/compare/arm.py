"""One arm of a comparison: the job under one semantics, from an empty topic to its evidence."""

from __future__ import annotations

import shutil
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from effectively_once.object_store import BucketAddress
from effectively_once_jobs.system_usage.settings import ACKNOWLEDGED, Semantics
from effectively_once_jobs.system_usage.snapshots import Snapshots, Totals
from infra.console import Console
from infra.embedded.job import Job
from infra.embedded.stack import Endpoints
from infra.toolchain.prepare import Toolchain
from tests.arms.cpu import Cpu
from tests.bench.facts import load
from tests.compare.figures import FACTS, Counts, Facts
from tests.compare.outputs import Outputs
from tests.compare.plan import EPOCH_ROWS, LATENESS_MS, Plan
from tests.compare.play import DRAIN_S, Play
from tests.harness.act import PARTITIONS
from tests.harness.adapters.events import Watch
from tests.harness.adapters.hold import Hold
from tests.harness.adapters.supervised import SupervisedDrivers
from tests.harness.history import History
from tests.harness.own_act import OwnHome
from tests.harness.run_directory import RunDirectory
from tests.harness.workload.pacing import Pace, Pacer
from tests.harness.workload.record import Planned
from tests.harness.workload.sender import Progress, Sender, Target, kafka_producer

JOB = "effectively_once_jobs.system_usage"
SHARDS = 2
DRIVER_S = 180.0
SETTLED = Progress(ends=dict.fromkeys(range(PARTITIONS), 2**62))
"""There is no chain to wait for: what was sent counts as settled at once, and the arm waits for itself."""


@dataclass
class Arm:
    """One semantics; whichever way `play` ends, no process of it is left.

    Attributes:
        directory: of this arm; evidence goes there.
        semantics: of the job.
        plan: what is sent and struck.
        toolchain, endpoints, database, outputs: where it runs.
        long_lived: JVMs for throughput.
        class_archive: of JVMs that are to be up soon.

    """

    directory: RunDirectory
    semantics: Semantics
    plan: Plan
    toolchain: Toolchain
    endpoints: Endpoints
    database: str
    outputs: Outputs
    console: Console
    long_lived: bool = True
    class_archive: Path | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    _load: float = field(default=0.0, init=False)
    _cpu_s: dict[str, float] = field(default_factory=dict, init=False)

    @property
    def pipeline(self) -> str:
        """Name of the pipeline: the semantics'."""
        return f"usage_{self.semantics}"

    def play(self) -> None:
        """Play it and write its evidence; what breaks it off is evidence too."""
        broke_off, self._load = None, load()
        with History(self.directory.history_path) as history:
            try:
                self._play(history)
            except Exception as error:
                broke_off = f"{type(error).__name__}: {error}"
                self.console.say(f"✗ {self.semantics} broke off: {error}")
                history.record("phase", phase="broken off")
        self._collect(broke_off)

    def _play(self, history: History) -> None:
        settings = self._settings()
        path = self.directory.path / "settings.json"
        self.directory.write_json(path, settings)
        hold = Hold(self.directory.path / "work" / "points")
        home = OwnHome(
            self.toolchain, self.endpoints, self.directory.path, self.class_archive, long_lived=self.long_lived,
            environment={**Job.named(JOB).environment(self.toolchain), **hold.env},
        )  # fmt: skip
        # What makes topics and tables knows the library's settings alone.
        made = path.with_name("settings-create.json")
        theirs = {name: value for name, value in settings.items() if name not in ("semantics", "time_out_s")}
        self.directory.write_json(made, theirs)
        home.create(made)
        watch = Watch(self.directory.path / "work" / "events.jsonl", history)
        drivers = SupervisedDrivers(home, JOB, watch.path, history=history, say=self.console.say)

        def unacknowledged(record: Planned, error: str) -> None:
            history.record("unacknowledged", id=record.id, error=error)

        watch.start()
        try:
            with self.directory.sent_writer() as lines, Cpu(lambda: [drivers.driver]) as cpu:
                sender = Sender(
                    kafka_producer(self.endpoints.kafka_bootstrap), lines,
                    Pacer(Pace(horizon_ms=None, max_outstanding=self.plan.records + 2)), lambda: SETTLED,
                    unacknowledged=unacknowledged,
                    stop=self.stop, target=Target(self.pipeline, PARTITIONS, DRAIN_S),
                )  # fmt: skip
                drivers.start("driver", path)
                watch.wait_for("the driver", lambda: bool(watch.seen), DRIVER_S, drivers.alive)
                Play(
                    self.pipeline, self.plan, sender, watch, drivers, hold, history, cpu, self.outputs, self.console,
                    self.stop, self._cpu_s,
                ).go()  # fmt: skip
                drivers.stop()
        finally:
            drivers.end()
            watch.stop()

    def _settings(self) -> dict[str, Any]:
        own = {"time_out_s": self.plan.time_out_s} if self.semantics == ACKNOWLEDGED else {}
        return {
            "pipeline": self.pipeline, "topic": self.pipeline, "job": JOB, "semantics": self.semantics,
            "kafka_bootstrap": self.endpoints.kafka_bootstrap, "s3_endpoint": self.endpoints.s3_endpoint,
            "s3_bucket": self.endpoints.s3_bucket, "database": self.database, "shards": SHARDS,
            "lateness_ms": LATENESS_MS, "epoch_rows_max": EPOCH_ROWS, **own,
        }  # fmt: skip

    def _collect(self, broke_off: str | None) -> None:
        from effectively_once.listing import S3ListingStore  # noqa: PLC0415 - it asks for credentials

        store = S3ListingStore(BucketAddress(self.endpoints.s3_endpoint, self.endpoints.s3_bucket))
        objects = [one.bytes for one in store.listed(f"{self.pipeline}/")]
        totals = Totals()
        kept = Snapshots(store, self.pipeline).restore(totals) >= 0
        facts = Facts(
            semantics=self.semantics, cpu_s=self._cpu_s, object_store_bytes=sum(objects), objects=len(objects),
            tables_bytes=self.outputs.write(self.directory, self.pipeline), load=(self._load, load()),
            broke_off=broke_off, state=Counts(**totals.get_state()) if kept else None,
        )  # fmt: skip
        self.directory.write_json(self.directory.path / FACTS, facts)
        shutil.rmtree(self.directory.path / "work", ignore_errors=True)
