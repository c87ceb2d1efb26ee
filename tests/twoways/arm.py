"""One arm: a way with so many operators, from empty topics to its evidence."""

from __future__ import annotations

import shutil
import threading
from contextlib import suppress
from dataclasses import dataclass, field

from effectively_once.object_store import BucketAddress
from effectively_once_jobs.two_ways.settings import SNAPSHOTS, WaySettings
from infra.console import Console
from infra.embedded.job import Job
from tests.arms.cpu import Cpu
from tests.arms.embedded import Shared
from tests.bench.facts import load
from tests.harness.adapters.events import Watch
from tests.harness.adapters.hold import Hold
from tests.harness.adapters.supervised import SupervisedDrivers
from tests.harness.adapters.topics import Topics
from tests.harness.history import History
from tests.harness.own_act import OwnHome
from tests.harness.run_directory import RunDirectory
from tests.harness.workload.pacing import Pace, Pacer
from tests.harness.workload.sender import Progress, Sender, Target, kafka_producer
from tests.twoways.figures import FACTS, Facts
from tests.twoways.outputs import Outputs
from tests.twoways.parts import DRAIN_S, Parts, dead
from tests.twoways.plan import Arm, Plan

JOB = "effectively_once_jobs.two_ways"
PARTITIONS = 2
START_S = 180.0
SETTLED = Progress(ends=dict.fromkeys(range(PARTITIONS), 2**62))
"""There is no chain to wait for: the arm waits for its output itself."""


@dataclass
class Play:
    """One arm; whichever way `go` ends, no process of it is left.

    Attributes:
        directory: of this arm; evidence goes there.
        place: where it runs.

    """

    directory: RunDirectory
    arm: Arm
    plan: Plan
    place: Shared
    outputs: Outputs
    console: Console
    stop: threading.Event = field(default_factory=threading.Event)
    _cpu_s: dict[str, float] = field(default_factory=dict, init=False)

    @property
    def pipeline(self) -> str:
        """Name of the pipeline."""
        return f"ways_{self.arm.name}"

    def go(self) -> None:
        """Play it and write its evidence; what breaks it off is evidence too."""
        broke_off, before = None, load()
        with History(self.directory.history_path) as history:
            try:
                self._go(history)
            except Exception as error:
                broke_off = f"{type(error).__name__}: {error}"
                self.console.say(f"✗ {self.arm.name} broke off: {error}")
                history.record("phase", phase="broken off")
        self._collect(broke_off, before)

    def _go(self, history: History) -> None:
        settings, place = self._settings(), self.place
        Topics(place.endpoints.kafka_bootstrap).create(dict.fromkeys(self._topics(settings[0]), PARTITIONS))
        self.outputs.make(self.pipeline)
        hold = Hold(self.directory.path / "work" / "points")
        watch = Watch(self.directory.path / "work" / "events.jsonl", history)
        home = OwnHome(
            place.toolchain, place.endpoints, self.directory.path, place.class_archive, long_lived=place.long_lived,
            environment={**Job.named(JOB).environment(place.toolchain), **hold.env},
        )  # fmt: skip
        drivers = [
            SupervisedDrivers(home, JOB, watch.path, history=history, say=self.console.say) for _ in settings
        ]  # fmt: skip
        watch.start()
        try:
            with self.directory.sent_writer() as lines, Cpu(lambda: [one.driver for one in drivers]) as cpu:
                sender = Sender(
                    kafka_producer(place.endpoints.kafka_bootstrap), lines,
                    Pacer(Pace(horizon_ms=None, max_outstanding=1_000_000)), lambda: SETTLED,
                    unacknowledged=lambda *_: None, stop=self.stop,
                    target=Target(self.pipeline, PARTITIONS, DRAIN_S),
                )  # fmt: skip
                for one, mine in zip(drivers, settings, strict=True):
                    path = self.directory.path / f"settings-{mine.operator}.json"
                    self.directory.write_json(path, mine)
                    one.start("query" if mine.way == SNAPSHOTS else f"operator-{mine.operator}", path)
                with self.console.step(f"{self.arm.name}: {len(drivers)} to start"):
                    watch.wait_for(
                        f"{len(drivers)} processes", lambda: _started(watch) >= len(drivers), START_S,
                        lambda: dead(drivers),
                    )  # fmt: skip
                Parts(
                    self.pipeline, self.arm, self.plan, sender, watch, hold, drivers, history, cpu, self.outputs,
                    self.console, self.stop, self._cpu_s,
                ).go()  # fmt: skip
                for one in drivers:
                    one.stop()
        finally:
            for one in drivers:
                one.end()
            watch.stop()

    def _settings(self) -> list[WaySettings]:
        """One for each process."""
        endpoints = self.place.endpoints
        processes = 1 if self.arm.way == SNAPSHOTS else self.arm.operators
        return [
            WaySettings(
                pipeline=self.pipeline, way=self.arm.way, operators=self.arm.operators, operator=number,
                topic=self.pipeline, partitions=PARTITIONS, rows_max=self.plan.rows_max, catalog=self.arm.catalog,
                kafka_bootstrap=endpoints.kafka_bootstrap, s3_endpoint=endpoints.s3_endpoint,
                s3_bucket=endpoints.s3_bucket, database=self.place.server.url,
            )
            for number in range(processes)
        ]  # fmt: skip

    def _topics(self, settings: WaySettings) -> list[str]:
        """What is sent to, and, of dedup, the topics between operators."""
        between = range(1, self.arm.operators) if self.arm.way != SNAPSHOTS else ()
        return [settings.reads(number) for number in (0, *between)]

    def _collect(self, broke_off: str | None, before: float) -> None:
        from effectively_once.listing import S3ListingStore  # noqa: PLC0415 - it asks for credentials

        store = S3ListingStore(BucketAddress(self.place.endpoints.s3_endpoint, self.place.endpoints.s3_bucket))
        objects = [one.bytes for one in store.listed(f"{self.pipeline}/")]
        between = self._topics(self._settings()[0])[1:]
        logs = [log for topic in between for log in self.place.broker_data.glob(f"*/{topic}-*/*.log")]
        with suppress(Exception):  # an arm that broke off early has no table; its evidence is then missing, and told
            self.outputs.write(self.directory, self.pipeline)
        facts = Facts(
            way=self.arm.way, operators=self.arm.operators, catalog=self.arm.catalog, cpu_s=self._cpu_s,
            object_store_bytes=sum(objects), objects=len(objects), topics_bytes=sum(log.stat().st_size for log in logs),
            load=(before, load()), broke_off=broke_off,
        )  # fmt: skip
        self.directory.write_json(self.directory.path / FACTS, facts)
        shutil.rmtree(self.directory.path / "work", ignore_errors=True)


def _started(watch: Watch) -> int:
    return sum(event["event"] == "driver" and event.get("state") == "started" for event in watch.seen)
