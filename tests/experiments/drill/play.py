"""One part of a drill: records flow, backups are taken, something is destroyed, restored, and goes on."""

from __future__ import annotations

import io
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from effectively_once.__main__ import main
from effectively_once.store.object_store import BucketAddress
from infra.console import Console
from infra.embedded.job import RunError
from infra.embedded.process import wait_for
from tests.experiments.arm import DRAIN_S, OUTSTANDING, ArmPlay, note_unacknowledged, settle_at_once
from tests.experiments.drill.claims import REFUSED, STARTS
from tests.experiments.drill.figures import ACCEPTED, AFTER, USER_COUNTS, WINDOW_MS, Facts
from tests.experiments.drill.load import Load
from tests.experiments.drill.plan import BUCKET, CLUSTER, TOPIC, Plan
from tests.harness.act import PARTITIONS
from tests.harness.adapters.chain_reader import ChainReader
from tests.harness.adapters.objects import Objects
from tests.harness.adapters.topics import Topics
from tests.harness.faults.fault import now_ms
from tests.harness.run_directory import RunDirectory
from tests.harness.stack.embedded import ProcessStack
from tests.harness.stack.processes import Role
from tests.harness.stack.stack import Stack
from tests.harness.workload.pacing import Pace, Pacer
from tests.harness.workload.record import Planned
from tests.harness.workload.seeded import closers
from tests.harness.workload.sender import Sender, Target, kafka_producer

JOB = "effectively_once_jobs.user_counts"
SHARDS, KEPT = 2, 2
SETTLE_S, DESTROY_S = 180.0, 30.0
LATENESS_MS = 120_000
OUTSIDE, SECOND = "outside", "second"
"""Folders: of the backups, which alone outlive the destruction; and of the driver that comes after it."""


def play(run: Path, plan: Plan, parts: Sequence[str], stack: Stack, console: Console) -> None:
    """Play parts of a drill one after the other."""
    for part in parts:
        Play(RunDirectory(run / part), stack, console, plan).play()


@dataclass
class Play(ArmPlay[Stack]):
    """One part, whose name is that of the arm; `noted` is what its facts are to say."""

    plan: Plan
    noted: dict[str, Any] = field(default_factory=dict, init=False)
    records: Iterator[Planned] = field(init=False)

    def __post_init__(self) -> None:
        """Begin the stream: what goes on elsewhere sends its next records."""
        self.records = self.plan.stream()

    @property
    def topics(self) -> Topics:
        """The broker."""
        return Topics(self.stack.endpoints.kafka_bootstrap, self.stack.replication)

    @property
    def bucket(self) -> BucketAddress:
        """The bucket, as this process reaches it."""
        return BucketAddress(self.stack.endpoints.s3_endpoint, self.stack.endpoints.s3_bucket)

    def go(self) -> None:
        """Play it.

        Raises:
            RunError: the part cannot be played on such a stack, or a command did not end as it has to.
            WaitTimedOutError, ServerError: something did not come up, or was not done in time.

        """
        if self.name == CLUSTER and not isinstance(self.stack, ProcessStack):
            raise RunError(
                "a drill does not destroy a cluster of Kubernetes yet: play the other parts on it, PARTS=bucket,topic, "
                "and this one with ON=embedded"
            )
        role = self._role(f"drill_{self.name}")
        with self.running(JOB, [role], PARTITIONS), self._load(self.sender) as load:
            place = self._back_up(role)
            if self.name == CLUSTER:
                # Who sends has nowhere to send to.
                load.end()
            self._destroy(role)
            self._restore(role, place)
            if self.name == CLUSTER:
                self._observe(role, self.directory)
            else:
                with self._driver(role, SECOND):
                    self._go_on(load, role)
                self._observe(role, self.directory)
        if self.name == CLUSTER:
            self._begin_anew()

    def facts(self, **told: Any) -> Facts:
        """Note down what it left."""
        for folder in (OUTSIDE, f"{SECOND}/work", f"{AFTER}/work"):
            shutil.rmtree(self.directory.path / folder, ignore_errors=True)
        return Facts(part=self.name, **self.noted, **told)

    def _role(self, name: str) -> Role:
        pipeline = self.stack.pipeline(name)
        settings = {"pipeline": pipeline, "topic": pipeline, "job": JOB, "shards": SHARDS}
        return Role({**settings, "window_ms": WINDOW_MS, "lateness_ms": LATENESS_MS}, {})

    @contextmanager
    def _load(self, sender: Sender) -> Iterator[Load]:
        """Send records at the pace of the plan until the block ends."""
        load = Load(sender, self.records, self.plan.pace)
        load.start()
        try:
            yield load
        finally:
            load.over.set()
            load.join(DRAIN_S)

    def _back_up(self, role: Role) -> Path:
        """Take two backups while records flow, and wait until the sinks are ahead; returns where the last one is."""
        watch, patience = self.processes.watch, self.stack.patience.driver_s
        series = self.directory.path.absolute() / OUTSIDE
        with self.console.step(f"{self.name}: records flow, two backups"):
            watch.wait_for("the first epoch", lambda: watch.last_published >= 0, patience, self.dead)
            for _ in range(KEPT):
                self.stop.wait(self.plan.before_s / KEPT)
                self._command(role, "backup", str(series), "--keep", str(KEPT), "--topics")
        place = max(series.iterdir())
        self.noted |= read_backup(place, str(role.settings["topic"]))
        ahead = self.noted["recorded"] + 1
        with self.console.step(f"{self.name}: records flow on"):
            self.stop.wait(self.plan.between_s)
            watch.wait_for("epochs after the backup", lambda: watch.last_published > ahead, patience, self.dead)
        return place

    def _destroy(self, role: Role) -> None:
        """Destroy it under a driver that runs, then stop the driver."""
        pipeline, watch = str(role.settings["pipeline"]), self.processes.watch
        self.history.record("phase", phase="destroy")
        self.noted |= {"published": watch.last_published, "destroyed_ms": now_ms()}
        with self.console.step(f"{self.name}: destroyed"):
            if self.name in (TOPIC, CLUSTER):
                # Rows and marks of a sink; or all that the broker has of it.
                self.topics.delete((f"{pipeline}.{ACCEPTED}" if self.name == TOPIC else pipeline,))
            if self.name in (BUCKET, CLUSTER):
                self._lose_objects(pipeline)
        with self.console.step(f"{self.name}: the driver is stopped"):
            for one in self.processes.drivers:
                one.stop()
                one.end()
        self.noted["stopped_ms"] = now_ms()

    def _lose_objects(self, pipeline: str) -> None:
        """Destroy the bucket; on a cluster, where others share it, all that is the pipeline's."""
        objects = Objects(self.bucket)
        if not isinstance(self.stack, ProcessStack):
            objects.delete(f"{pipeline}/")
            return

        def destroy() -> bool:
            # The driver writes on: there may be an object again.
            objects.destroy()
            return True

        wait_for("the bucket to be gone", DESTROY_S, destroy)

    def _restore(self, role: Role, place: Path) -> None:
        """Do what the how-to says: make room, make what is not there, restore."""
        pipeline, make = str(role.settings["pipeline"]), ["--replication", str(self.stack.replication)]
        if self.name == CLUSTER:
            make += ["--source-partitions", str(PARTITIONS)]
        with self.console.step(f"{self.name}: restored from the backup"):
            self.topics.delete((f"{pipeline}.",))
            self._command(role, "create", *make)
            Objects(self.bucket).delete(f"{pipeline}/")
            due = REFUSED if self.name == CLUSTER else STARTS
            says = self._command(role, "restore", str(place), "--topics", due=due)
        self.noted |= {"restored_ms": now_ms(), "code": due, "says": says}

    @contextmanager
    def _driver(self, role: Role, folder: str) -> Iterator[None]:
        """Run the driver that comes after the restore, and note when its first epoch is published."""
        directory = RunDirectory(self.directory.path / folder)
        directory.path.mkdir(exist_ok=True)
        # Whoever asks for the processes of this arm means those that run.
        self.processes = processes = self.stack.prepare(directory, self.history, JOB, [role])
        watch = processes.watch
        with processes.following():
            with self.console.step(f"{self.name}: the first epoch after it"):
                processes.start()
                watch.wait_for("its epoch", lambda: watch.last_published >= 0, self.stack.patience.driver_s, self.dead)
            first = next(one for one in watch.seen if one["event"] == "epoch" and one["state"] == "published")
            self.noted["first_ms"] = first["t"]
            self.history.record("phase", phase="goes on")
            yield
            for one in processes.drivers:
                one.stop()

    def _go_on(self, load: Load, role: Role) -> None:
        """Send for a while, then records that close all windows, and wait for everything to be published."""
        with self.console.step(f"{self.name}: goes on"):
            self.stop.wait(self.plan.after_s)
            load.end()
            sender, topic = load.sender, str(role.settings["topic"])
            chain = ChainReader(self.bucket, str(role.settings["pipeline"]), topic)
            latest = sender.last_event_time_ms
            assert latest is not None, "there are records"
            for one in closers(latest, sender.acknowledged, WINDOW_MS, LATENESS_MS):
                # Each is in an epoch of its own: the second one has the watermark that closes all windows.
                self._wait_until_published(chain, sender)
                before = sender.acknowledged
                if not sender.send([one]) or sender.acknowledged == before:
                    raise RunError(f"the broker did not acknowledge {one.id}")
            self._wait_until_published(chain, sender)

    def _wait_until_published(self, chain: ChainReader, sender: Sender) -> None:
        def done() -> bool:
            head = chain.head()
            assert head is not None, "it is restored"
            ends = chain.progress().ends
            # A published epoch is recorded when the next one is declared, for which there may be no records.
            published = self.processes.watch.last_published >= head.last_pinned
            return published and all(ends.get(p, 0) >= end for p, end in sender.ends.items())

        wait_for("everything that was sent to be published", SETTLE_S, done)

    def _begin_anew(self) -> None:
        """Go on under another name: the input that the restored chain knows is not there any more."""
        self.noted["renamed"] = True
        role, directory = self._role("drill_again"), RunDirectory(self.directory.path / AFTER)
        directory.path.mkdir()
        self._command(role, "create", "--source-partitions", str(PARTITIONS), file=AFTER)
        with directory.sent_writer() as lines:
            sender = Sender(
                kafka_producer(self.stack.endpoints.kafka_bootstrap),
                lines,
                Pacer(Pace(horizon_ms=None, max_outstanding=OUTSTANDING)),
                settle_at_once(PARTITIONS),
                unacknowledged=note_unacknowledged(self.history),
                stop=self.stop,
                target=Target(str(role.settings["topic"]), PARTITIONS, DRAIN_S),
            )
            with self._load(sender) as load, self._driver(role, AFTER):
                self._go_on(load, role)
        self._observe(role, directory)

    def _observe(self, role: Role, directory: RunDirectory) -> None:
        """Write down what the sinks show."""
        for sink in (ACCEPTED, USER_COUNTS):
            with directory.observed_writer(sink) as lines:
                for row in self.topics.read(f"{role.settings['pipeline']}.{sink}", self.stop):
                    lines.write(row)

    def _command(self, role: Role, command: str, *words: str, due: int = STARTS, file: str = "operator") -> str:
        """Run a command as an operator does; returns its last line. Raises RunError: its exit code is another."""
        endpoints = self.stack.endpoints
        outside = {"kafka_bootstrap": endpoints.kafka_bootstrap, "s3_endpoint": endpoints.s3_endpoint}
        path = self.directory.path.absolute() / f"{file}.json"
        path.write_text(self.stack.settings(role).model_copy(update=outside).model_dump_json())
        said = io.StringIO()
        with redirect_stdout(said), redirect_stderr(said):
            code = main([command, str(path), *words])
        lines = said.getvalue().splitlines() or ["nothing"]
        self.directory.logs.mkdir(exist_ok=True)
        with (self.directory.logs / "commands.txt").open("a") as log:
            log.write("\n".join([f"$ effectively-once {command} {file}.json {' '.join(words)}", *lines, ""]))
        if code != due:
            raise RunError(f"`effectively-once {command}` ended with {code}, not {due}: {lines[-1]}")
        return lines[-1]


def read_backup(place: Path, topic: str) -> dict[str, Any]:
    """Return what the facts are to say of a backup, from its files alone."""
    manifest, copies = (orjson.loads((place / name).read_bytes()) for name in ("backup.json", "topics/topics.json"))
    head = orjson.loads(manifest["head"])
    copied: Counter[str] = Counter()
    for name, one in copies["shards"].items():
        copied[name.partition("/")[0]] += one["rows"]
    spans = head["tail"][-1]["ranges"].get(topic, {}) if head["tail"] else {}
    return {
        "taken_ms": manifest["taken_ms"],
        "recorded": head["last_recorded"],
        "ends": {partition: end for partition, (_, end) in spans.items()},
        "copied": {sink: copied[sink] for sink in (ACCEPTED, USER_COUNTS)},
    }
