"""The play: the first stream while records are sent, the second over what the topic has kept, then the batch run."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from effectively_once.store.object_store import BucketAddress
from infra.console import Console
from infra.embedded.job import RunError
from tests.experiments.arm import note_unacknowledged
from tests.experiments.reconcile.batch import reconcile
from tests.experiments.reconcile.figures import BATCH, DEAD_LETTER
from tests.experiments.reconcile.plan import AT_LEAST_ONCE, EXACTLY_ONCE, Plan
from tests.experiments.reconcile.streams import JOB, PLAIN, Stream
from tests.experiments.run_folder import broke_off
from tests.harness.act import PARTITIONS
from tests.harness.adapters.chain_reader import ChainReader
from tests.harness.adapters.topics import Topics
from tests.harness.history import History
from tests.harness.run_directory import RunDirectory
from tests.harness.stack.processes import Role
from tests.harness.stack.stack import Stack
from tests.harness.workload.pacing import Pacer
from tests.harness.workload.record import Planned
from tests.harness.workload.seeded import closers
from tests.harness.workload.sender import Sender, Target, kafka_producer

SHARDS, SENT_S, COUNTS = 2, 180.0, "user_counts"


def play(run: Path, plan: Plan, _: Sequence[str], stack: Stack, console: Console) -> None:
    """Play a plan; what breaks it off is noted in the manifest, and judged."""
    try:
        Play(RunDirectory(run), plan, stack, console).go()
    except Exception as error:
        console.say(f"✗ broke off: {error}")
        broke_off(run, error)


@dataclass
class Play:
    """One reconciliation on a stack that is there.

    Attributes:
        directory: of the run.
        plan: what is sent and struck.
        stack: where it is played.
        stop: set from outside to end early.

    """

    directory: RunDirectory
    plan: Plan
    stack: Stack
    console: Console
    stop: threading.Event = field(default_factory=threading.Event)

    @property
    def topic(self) -> str:
        """What both streams read."""
        return self.stack.pipeline("reconcile_events")

    def go(self) -> None:
        """Play it, and write its evidence.

        Raises:
            WaitTimedOutError, ServerError, RunError: something did not come up, or was not done in time.

        """
        exactly = self._stream(EXACTLY_ONCE, JOB)
        plain = self._stream(AT_LEAST_ONCE, PLAIN, epoch_rows_max=self.plan.batch_rows)
        self.stack.create(exactly.directory, exactly.role, PARTITIONS)
        topics = Topics(self.stack.endpoints.kafka_bootstrap, self.stack.replication)
        beside = f"{plain.pipeline}.{COUNTS}"
        topics.create({beside: SHARDS})
        acknowledged = self._exactly_once(exactly)
        told = f"at least once: the same {acknowledged:,} records from the topic, the same kills"
        with self.console.step(told), plain.running():
            plain.wait_until_done(acknowledged)
        with exactly.directory.observed_writer(DEAD_LETTER) as lines:
            for row in topics.read(f"{exactly.pipeline}.{DEAD_LETTER}", self.stop):
                lines.write(row)
        with self.console.step("batch run over the retained topic"):
            reconcile(RunDirectory(self.directory.path / BATCH), self.stack, exactly, beside)
        for stream in (exactly, plain):
            stream.forget()

    def _stream(self, name: str, module: str, **more: int) -> Stream:
        own, subject = RunDirectory(self.directory.path / name), self.plan.subject
        own.path.mkdir()
        role = Role(
            {
                "pipeline": self.stack.pipeline(f"reconcile_{name}"),
                "topic": self.topic,
                "job": JOB,
                "shards": SHARDS,
                "window_ms": subject.window_ms,
                "lateness_ms": subject.lateness_ms,
                **more,
            },
            {},
        )
        return Stream(own, module, role, self.plan.strikes, self.stack, self.console)

    def _exactly_once(self, stream: Stream) -> int:
        """Send everything while the stream runs; how many records the topic holds then."""
        subject, endpoints = self.plan.subject, self.stack.endpoints
        bucket = BucketAddress(endpoints.s3_endpoint, endpoints.s3_bucket)
        chain = ChainReader(bucket, stream.pipeline, self.topic)
        with self.directory.sent_writer() as lines, History(self.directory.history_path) as history:
            sender = Sender(
                kafka_producer(endpoints.kafka_bootstrap),
                lines,
                Pacer(subject.pace),
                chain.progress,
                unacknowledged=note_unacknowledged(history),
                stop=self.stop,
                target=Target(self.topic, PARTITIONS, SENT_S),
            )
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
