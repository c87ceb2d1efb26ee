"""The act of a demo: what happens while its servers run, kills, epilogue and controls included."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from infra.console import Console
from infra.embedded.spark import SparkHome
from infra.embedded.stack import Endpoints
from infra.toolchain.prepare import Toolchain
from tests.harness.adapters.chain_reader import ChainReader
from tests.harness.adapters.embedded import Drivers
from tests.harness.adapters.events import Watch
from tests.harness.adapters.topics import Topics
from tests.harness.adapters.transactions import open_transactions
from tests.harness.collector import KAFKA_SINKS, Collector
from tests.harness.controls.run import run_controls
from tests.harness.epilogue import Epilogue
from tests.harness.faults import ExecutorKills
from tests.harness.history import History
from tests.harness.run_directory import LinesWriter, RunDirectory
from tests.harness.schedule import plan
from tests.harness.subject import Subject
from tests.harness.workload.pacing import Pacer
from tests.harness.workload.record import Planned
from tests.harness.workload.seeded import closers
from tests.harness.workload.sender import Sender, Target, kafka_producer

PIPELINE, TOPIC, PARTITIONS, SHARDS = "user_counts", "events", 4, 2
JOB = "effectively_once_jobs.user_counts"
DRIVER_S, DRAIN_S = 120.0, 600.0


class Act:
    """Everything a demo does on its servers, from the first topic to the last piece of evidence.

    Args:
        directory: where settings and evidence go.
        history: what happened, as it happens.
        endpoints: the servers; their owner stops them.
        subject: what is sent.
        toolchain: what drivers and the broker's tools are started from.
        seed: draws the kills and what the controls send.
        kills: executors to SIGKILL.
        console: tells what is under way.
        class_archive: shared class data for Spark's JVMs, None for plain ones.
        stop: set from outside to end early, and by the act itself when a part of it fails.
    """

    def __init__(
        self,
        directory: RunDirectory,
        history: History,
        endpoints: Endpoints,
        subject: Subject,
        *,
        toolchain: Toolchain,
        seed: int,
        kills: int,
        console: Console,
        class_archive: Path | None,
        stop: threading.Event,
    ) -> None:
        self.directory, self.history, self.endpoints, self.subject = directory, history, endpoints, subject
        self.toolchain, self.seed, self.kills_wanted, self.console, self.stop = toolchain, seed, kills, console, stop
        self.topics = Topics(endpoints.kafka_bootstrap)
        settings = pipeline_settings(endpoints, subject)
        self.chain = ChainReader(settings.bucket, PIPELINE, TOPIC)
        self.settings_path = directory.path / "settings.json"
        self.settings_path.write_text(settings.model_dump_json(indent=1))
        self.home = SparkHome(toolchain, endpoints, directory.path, class_archive)
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
                # The controls have an application and topics of their own: they run beside the epilogue, which
                # mostly waits.
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
                plan(self.seed, self.kills_wanted, SHARDS, **self.subject.fault_gates),
                self.drivers, self.watch, self.history, self.console.say,
            )  # fmt: skip
            self.watch.wait_for("the driver", lambda: bool(self.watch.seen), DRIVER_S, self.drivers.alive)
        with self.console.step(
            f"{self.subject.numbers.sent:,} records through the pipeline, {self.kills_wanted} executors killed"
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
            run_controls(self.directory, self.home, self.topics, self.seed, console=self.console, stop=self.stop)

    def _sender(self, lines: LinesWriter) -> Sender:
        def unacknowledged(record: Planned, error: str) -> None:
            self.history.record("unacknowledged", id=record.id, error=error)

        return Sender(
            kafka_producer(self.endpoints.kafka_bootstrap), lines, Pacer(self.subject.pace), self.chain.progress,
            unacknowledged=unacknowledged, stop=self.stop, target=Target(TOPIC, PARTITIONS, DRAIN_S),
        )  # fmt: skip

    def _open_transactions(self) -> list[str]:
        tools = self.toolchain
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
    for number, record in enumerate(records):
        if number % every == 0:
            history.record("sent", acknowledged=number)
        yield record
