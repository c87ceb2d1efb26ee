"""The demo: a pipeline under SIGKILL on one machine, its epilogue, its controls, and the verdict."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra.console import Console
from infra.embedded.spark import SparkHome
from infra.embedded.stack import EmbeddedStack, Endpoints
from infra.toolchain.prepare import Toolchain
from infra.versions import of_run
from tests.harness import judge as judging
from tests.harness import report
from tests.harness.adapters.chain_reader import ChainReader
from tests.harness.adapters.embedded import Drivers
from tests.harness.adapters.events import Watch
from tests.harness.adapters.topics import Topics
from tests.harness.adapters.transactions import open_transactions
from tests.harness.collector import GLOBAL_COUNTS, KAFKA_SINKS, Collector
from tests.harness.controls.run import CONTROLS, run_controls
from tests.harness.epilogue import Epilogue
from tests.harness.faults import ExecutorKills
from tests.harness.history import History
from tests.harness.results import Results
from tests.harness.run_directory import RunDirectory, new_run, point_latest
from tests.harness.schedule import plan
from tests.harness.subject import Subject
from tests.harness.workload.pacing import Pacer
from tests.harness.workload.record import Planned
from tests.harness.workload.seeded import closers
from tests.harness.workload.sender import Sender, Target, kafka_producer

PIPELINE, TOPIC, PARTITIONS, SHARDS = "user_counts", "events", 4, 2
JOB = "effectively_once_jobs.user_counts"
CLAIM = (
    "Every event in time is counted exactly once per user and minute, whichever executors are killed: "
    "no sink misses, doubles, invents or alters a record."
)
DRIVER_S, DRAIN_S = 120.0, 600.0


@dataclass
class Demo:
    """One run from start to verdict. `close` is safe at any time and leaves no process."""

    checkout: Path
    toolchain: Toolchain
    subject: Subject
    seed: int
    kills: int
    console: Console
    class_archive: Path | None = None
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> Results:
        """Run it all. Raises what went wrong when there is nothing to judge; the run directory then holds the logs."""
        path = new_run(self.checkout / "runs", self.seed)
        directory = RunDirectory(path)
        self.console.say(f"run {path.relative_to(self.checkout)}, seed {self.seed}: {self.subject.says}")
        directory.write_json(directory.manifest_path, self._manifest(path.name))
        point_latest(path)
        with History(directory.history_path) as history, EmbeddedStack(path, self.toolchain, self.console.say) as stack:
            os.environ["AWS_ACCESS_KEY_ID"] = stack.endpoints.s3_access_key
            os.environ["AWS_SECRET_ACCESS_KEY"] = stack.endpoints.s3_secret_key
            _Run(self, directory, history, stack.endpoints).go()
            history.record("phase", phase="judge")
        with self.console.step("judge"):
            results = judging.judge(path)
            page = report.write(path)
        self.console.say(f"report {page.relative_to(self.checkout)}")
        return results

    def _manifest(self, name: str) -> dict[str, Any]:
        numbers = self.subject.numbers
        return {
            "format": 1, "run": name, "claim": CLAIM, "seed": self.seed, "started_at": _now_ms(),
            "settings": {
                "pipeline": PIPELINE, "topic": TOPIC, "shards": SHARDS, "window_ms": self.subject.window_ms,
                "lateness_ms": self.subject.lateness_ms, "sinks": [*KAFKA_SINKS, GLOBAL_COUNTS], **self.subject.named,
            },
            "workload": {
                "kind": self.subject.kind, "sent": numbers.sent, "duplicates_sent": numbers.duplicates_sent,
                "late_sent": numbers.late_sent, "malformed_sent": numbers.malformed_sent,
            },
            "faults_planned": self.kills, "controls": [{"name": name, "must": "fail"} for name in CONTROLS],
            "versions": of_run(), "git": git_state(self.checkout), "control": None,
        }  # fmt: skip


class _Run:
    """The part of a demo during which servers run."""

    def __init__(self, demo: Demo, directory: RunDirectory, history: History, endpoints: Endpoints) -> None:
        self.demo, self.directory, self.history, self.endpoints = demo, directory, history, endpoints
        self.console, self.subject, self.stop = demo.console, demo.subject, demo.stop
        self.topics = Topics(endpoints.kafka_bootstrap)
        settings = pipeline_settings(endpoints, demo.subject)
        self.chain = ChainReader(settings.bucket, PIPELINE, TOPIC)
        self.settings_path = directory.path / "settings.json"
        self.settings_path.write_text(settings.model_dump_json(indent=1))
        self.home = SparkHome(demo.toolchain, endpoints, directory.path, demo.class_archive)
        self.watch = Watch(directory.path / "work" / "events.jsonl", history)
        self.drivers = Drivers(self.home, JOB, self.watch.path)
        self.collector = Collector(directory, self.topics, self.chain, PIPELINE)

    def go(self) -> None:
        """Warm up, kill while sending, drain, epilogue, controls; evidence is written as it comes."""
        sinks = {f"{PIPELINE}.{sink}": SHARDS for sink in KAFKA_SINKS}
        self.topics.create({TOPIC: PARTITIONS, **sinks}, {f"{name}.progress": SHARDS for name in sinks})
        self.watch.start()
        try:
            with self.directory.sent_writer() as lines, ThreadPoolExecutor(1, "controls") as beside:
                sender = self._sender(lines)
                self._main_act(sender)
                boundary = self.collector.boundary()
                # The controls have an application and topics of their own: they run beside the epilogue, which mostly waits.
                controls = beside.submit(self._controls)
                try:
                    self._epilogue(sender, boundary)
                except BaseException:
                    self.stop.set()
                    raise
            with self.console.step("collect evidence"):
                self.collector.collect(self._open_transactions, self.stop)
            controls.result()
        finally:
            if self.drivers.child is not None:
                self.drivers.child.kill()
            self.watch.stop()

    def _main_act(self, sender: Sender) -> None:
        self._phase("warm-up")
        with self.console.step("driver and executors"):
            self.drivers.start("driver", str(self.settings_path))
            kills = self.kills = ExecutorKills(
                plan(self.demo.seed, self.demo.kills, SHARDS, **self.subject.fault_gates),
                self.drivers, self.watch, self.history, self.console.say,
            )  # fmt: skip
            self.watch.wait_for("the driver", lambda: bool(self.watch.seen), DRIVER_S, self.drivers.alive)
        with self.console.step(
            f"{self.subject.numbers.sent:,} records through the pipeline, {self.demo.kills} executors killed"
        ):
            self._phase("steady")
            kills.start()
            sending = threading.Thread(target=self._guard(self._send), args=(sender,), name="sender", daemon=True)
            self._send_error: BaseException | None = None
            sending.start()
            while sending.is_alive():
                sending.join(0.2)
                dead = self.drivers.alive()
                if dead is not None:
                    self.stop.set()
                    raise RuntimeError(f"the driver ended while records were sent: {dead}")
            if self._send_error is not None:
                raise self._send_error
            self._phase("drain")
            self._published(sender)
            # A planned kill that no epoch is left for is a missed one; the judge counts it.
            kills.waiting.wait(DRAIN_S)
            kills.stop_asked.set()
            kills.join()
            if kills.error is not None:
                raise kills.error

    def _guard(self, work: Callable[..., None]) -> Callable[..., None]:
        def guarded(*arguments: Any) -> None:
            try:
                work(*arguments)
            except BaseException as error:
                self._send_error = error

        return guarded

    def _send(self, sender: Sender) -> None:
        last = sender.send(counted(self.subject.records(), self.history))
        if not last:
            raise InterruptedError("stopped while sending")
        latest = sender.last_event_time_ms
        if latest is not None:
            first_n = self.subject.numbers.sent + 1
            for closer in closers(latest, first_n, self.subject.window_ms, self.subject.lateness_ms):
                # Little data makes few epochs: each of the last ones is kept until a kill is waiting for it.
                while not self.kills.waiting.wait(0.5) and not self.stop.is_set():
                    pass
                sender.send([closer])
        self.history.record("sent", acknowledged=sender.acknowledged)
        sender.wait_until_declared()

    def _published(self, sender: Sender) -> None:
        """Wait until everything sent lies in a published epoch."""

        def done() -> bool:
            head = self.chain.head()
            if head is None:
                return False
            pinned = head.declared or (head.tail[-1] if head.tail else None)
            spans = pinned.ranges.get(TOPIC, {}) if pinned else {}
            all_in = all(spans.get(str(p), (0, 0))[1] >= end for p, end in sender.ends.items())
            return all_in and pinned is not None and self.watch.last_published >= pinned.epoch

        self.watch.wait_for("the last epoch", done, DRAIN_S, self.drivers.alive)

    def _epilogue(self, sender: Sender, boundary: dict[str, Any]) -> None:
        self._phase("epilogue")
        with self.console.step("epilogue: restarts with and without checkpoint, everything re-sent"):
            Epilogue(self.directory, self.drivers, self.chain, self.watch, self.history, self.subject,
                     self.settings_path).play(sender, boundary, self._published)  # fmt: skip

    def _controls(self) -> None:
        with self.console.step("negative controls, which must fail"):
            run_controls(self.directory, self.home, self.topics, self.demo.seed, self.console, self.stop)

    def _sender(self, lines: Any) -> Sender:
        def unacknowledged(record: Planned, error: str) -> None:
            self.history.record("unacknowledged", id=record.id, error=error)

        return Sender(
            kafka_producer(self.endpoints.kafka_bootstrap), lines, Pacer(self.subject.pace), self.chain.progress,
            unacknowledged=unacknowledged, stop=self.stop, target=Target(TOPIC, PARTITIONS, DRAIN_S),
        )  # fmt: skip

    def _open_transactions(self) -> list[str]:
        tools = self.demo.toolchain
        return open_transactions(tools.java, tools.kafka_classpath, self.endpoints.kafka_bootstrap)

    def _phase(self, name: str) -> None:
        self.history.record("phase", phase=name)


def pipeline_settings(endpoints: Endpoints, subject: Subject) -> Any:
    """The settings file's content for a stack and what is to be sent."""
    from effectively_once.settings import PipelineSettings  # noqa: PLC0415 - keeps `make check` free of the pipeline

    return PipelineSettings(
        pipeline=PIPELINE, topic=TOPIC, kafka_bootstrap=endpoints.kafka_bootstrap, s3_endpoint=endpoints.s3_endpoint,
        s3_bucket=endpoints.s3_bucket, shards=SHARDS, window_ms=subject.window_ms, lateness_ms=subject.lateness_ms,
        epoch_rows_max=subject.epoch_rows_max,
    )  # fmt: skip


def counted(records: Iterable[Planned], history: History, every: int = 2_000) -> Iterable[Planned]:
    """Pass records on and note every so often how many went."""
    number = 0
    for number, record in enumerate(records):  # noqa: B007 - the last number is used
        if number % every == 0:
            history.record("sent", acknowledged=number)
        yield record


def git_state(checkout: Path) -> dict[str, Any]:
    """Commit and whether there are changes; empty outside a repository."""

    def ask(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=checkout, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return {"commit": ask("rev-parse", "HEAD"), "dirty": bool(ask("status", "--porcelain"))}
    except (OSError, subprocess.CalledProcessError):
        return {}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
