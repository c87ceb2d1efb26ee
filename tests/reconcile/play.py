"""The play: the first stream while records are sent, the second over what the topic has kept, then the batch run."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from effectively_once.object_store import BucketAddress
from infra.console import Console
from infra.embedded.job import RunError
from infra.embedded.stack import Endpoints
from infra.toolchain.prepare import Toolchain
from tests.harness.act import PARTITIONS
from tests.harness.adapters.chain_reader import ChainReader
from tests.harness.adapters.topics import Topics
from tests.harness.history import History
from tests.harness.own_act import OwnHome
from tests.harness.run_directory import RunDirectory
from tests.harness.workload.pacing import Pacer
from tests.harness.workload.record import Planned
from tests.harness.workload.seeded import closers
from tests.harness.workload.sender import Sender, Target, kafka_producer
from tests.reconcile.plan import AT_LEAST_ONCE, BATCHES, EXACTLY_ONCE, Plan
from tests.reconcile.streams import JOB, PLAIN, SHARDS, Stream, settings_of

TOPIC = "reconcile_events"
SENT_S, BATCH_S = 180.0, 300.0
BATCH, DEAD_LETTER, COUNTS = "batch", "dead_letter", "user_counts"
ANSWERS = (0, 1)
"""The batch run found the stream accurate, or not; both are answers."""


@dataclass
class Play:
    """One reconciliation on a stack that is there.

    Attributes:
        directory: of the run.
        plan: what is sent and struck.
        class_archive: of JVMs that are to be up soon.
        stop: set from outside to end early.

    """

    directory: RunDirectory
    plan: Plan
    toolchain: Toolchain
    endpoints: Endpoints
    console: Console
    class_archive: Path | None = None
    stop: threading.Event = field(default_factory=threading.Event)

    def go(self) -> None:
        """Play it, and write its evidence.

        Raises:
            WaitTimedOutError, ServerError, RunError: something did not come up, or was not done in time.

        """
        os.environ["AWS_ACCESS_KEY_ID"] = self.endpoints.s3_access_key
        os.environ["AWS_SECRET_ACCESS_KEY"] = self.endpoints.s3_secret_key
        exactly = self._stream(EXACTLY_ONCE, JOB)
        plain = self._stream(AT_LEAST_ONCE, PLAIN, epoch_rows_max=-(-self.plan.records // BATCHES))
        exactly.home.create(exactly.settings_path)
        topics = Topics(self.endpoints.kafka_bootstrap)
        beside = f"{plain.settings['pipeline']}.{COUNTS}"
        topics.create({beside: SHARDS})
        acknowledged = self._exactly_once(exactly)
        told = f"at least once: the same {acknowledged:,} records from the topic, the same kills"
        with self.console.step(told), plain.running():
            plain.wait_until_done(acknowledged)
        with exactly.directory.observed_writer(DEAD_LETTER) as lines:
            for row in topics.read(f"{exactly.settings['pipeline']}.{DEAD_LETTER}", self.stop):
                lines.write(row)
        with self.console.step("batch run over the retained topic"):
            self._batch(exactly, beside)
        for stream in (exactly, plain):
            stream.forget()

    def _stream(self, name: str, module: str, **more: int) -> Stream:
        own = RunDirectory(self.directory.path / name)
        own.path.mkdir()
        settings = settings_of(f"reconcile_{name}", TOPIC, self.endpoints, **more)
        return Stream(
            own, module, settings, self.plan.strikes, self.toolchain, self.endpoints, self.console, self.class_archive
        )

    def _exactly_once(self, stream: Stream) -> int:
        """Send everything while the stream runs; how many records the topic holds then."""
        subject, pipeline = self.plan.subject, str(stream.settings["pipeline"])
        chain = ChainReader(BucketAddress(self.endpoints.s3_endpoint, self.endpoints.s3_bucket), pipeline, TOPIC)
        with self.directory.sent_writer() as lines, History(self.directory.history_path) as history:

            def unacknowledged(record: Planned, error: str) -> None:
                history.record("unacknowledged", id=record.id, error=error)

            sender = Sender(
                kafka_producer(self.endpoints.kafka_bootstrap), lines, Pacer(subject.pace), chain.progress,
                unacknowledged=unacknowledged, stop=self.stop, target=Target(TOPIC, PARTITIONS, SENT_S),
            )  # fmt: skip
            with stream.running():
                with self.console.step(f"exactly once: {subject.says}; {len(self.plan.strikes)} kills"):
                    self._send(sender, subject.records(), stream)
                latest = sender.last_event_time_ms
                assert latest is not None, "there are records in time among so many"
                with self.console.step("the bound of lateness at -1, 0 and +1 ms"):
                    for attempt in self.plan.attempts(latest, sender.acknowledged):
                        # Each alone in its epoch, so that it is read under the watermark that the one before set.
                        self._send(sender, [attempt.setter], stream)
                        self._send(sender, [attempt.record], stream)
                latest = sender.last_event_time_ms
                assert latest is not None
                for one in closers(latest, sender.acknowledged, subject.window_ms, subject.lateness_ms):
                    self._send(sender, [one], stream)
            history.record("sent", acknowledged=sender.acknowledged)
            return sender.acknowledged

    def _send(self, sender: Sender, records: Iterable[Planned], stream: Stream) -> None:
        if not sender.send(records):
            raise InterruptedError("stopped while sending")
        if sender.failed:
            raise RunError(f"the broker did not acknowledge {sender.failed} records")
        stream.wait_until_done(sender.acknowledged)

    def _batch(self, stream: Stream, beside: str) -> None:
        home = OwnHome(
            self.toolchain, self.endpoints, stream.directory.path.absolute(), self.class_archive, "local[2]",
            environment=stream.home.environment,
        )  # fmt: skip
        to = (self.directory.path / BATCH).absolute()
        words = [str(stream.settings_path), "--to", str(to), "--beside", beside]
        child = home.start("batch", "effectively_once_jobs.reconcile", words)
        try:
            if not child.wait(BATCH_S) or child.status() not in ANSWERS:
                raise RunError(child.post_mortem())
        finally:
            child.stop()
