"""The act of a run: what happens while its servers run, faults, epilogue and controls included."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from effectively_once.pipeline.settings import PipelineSettings
from effectively_once.sources.statement import topic_of
from effectively_once.store.object_store import PATIENCE_S, BucketAddress
from infra.console import Console
from tests.harness.adapters.chain_reader import ChainReader
from tests.harness.adapters.concurrent_reader import ConcurrentReader
from tests.harness.adapters.drivers import Drivers
from tests.harness.adapters.events import Watch
from tests.harness.adapters.services import Services
from tests.harness.adapters.topics import Topics
from tests.harness.collector import USER_COUNTS, Collector, Outputs
from tests.harness.epilogue import Epilogue
from tests.harness.faults.arsenal import Arsenal, ExecutorArsenal
from tests.harness.faults.campaign import Campaign
from tests.harness.history import History
from tests.harness.meanwhile import Meanwhile
from tests.harness.run_directory import LinesWriter, RunDirectory
from tests.harness.schedule import PlannedFault
from tests.harness.stack.stack import Stack
from tests.harness.subject import Subject
from tests.harness.workload.gateways import Gateways, publisher
from tests.harness.workload.pacing import Pacer
from tests.harness.workload.record import Planned
from tests.harness.workload.seeded import closers, in_every_partition, settler
from tests.harness.workload.sender import KafkaProducer, Sender, Target, kafka_producer

PARTITIONS = 4
DRAIN_S = 600.0
AWAY_S = 180.0
"""A store may be away for so long, by a fault, before the run gives up reading from it."""
NO_FILES = "no_files"
"""Stands for the sink of files that a concurrent reader follows, of a pipeline that has none."""
DELIVERY_MS = 300_000
"""A broker may be away for so long before a record counts as not acknowledged."""


class Act:
    """Everything a run does on its servers, from the first topic to the last piece of evidence.

    Args:
        directory: where settings and evidence go.
        history: what happened, as it happens.
        stack: where the pipeline runs; its owner stops it.
        subject: what is sent.
        settings: the pipeline's own: how its processes reach the servers.
        drivers: starts and strikes its processes.
        watch: what they announce; started and stopped by the act.
        faults: what to strike, in this order.
        arsenal: makes these faults; those of executors when left out.
        console: tells what is under way.
        stop: set from outside to end early, and by the act itself when a part of it fails.
        open_transactions: asks the broker for them.
        beside: played beside the epilogue (the controls, where there is room for both).
        early: begin that once nothing is struck any more, while records are still sent. What was struck last is
            caught up with more slowly then.
        partitions: of the input topic.
        outputs: what the pipeline writes to.
        services: reads servers of several copies all along; None: there are none, or nobody reads them.
        meanwhile: what is done while records are sent, in the place of faults.
    """

    def __init__(
        self,
        directory: RunDirectory,
        history: History,
        stack: Stack,
        subject: Subject,
        *,
        settings: PipelineSettings,
        drivers: Drivers,
        watch: Watch,
        faults: Sequence[PlannedFault],
        arsenal: Arsenal | None = None,
        console: Console,
        stop: threading.Event,
        open_transactions: Callable[[], list[str]],
        beside: Callable[[], None] = lambda: None,
        early: bool = False,
        partitions: int = PARTITIONS,
        outputs: Outputs = USER_COUNTS,
        services: Services | None = None,
        meanwhile: Meanwhile | None = None,
    ) -> None:
        self.directory, self.history, self.stack, self.subject = directory, history, stack, subject
        self.faults, self.console, self.stop = faults, console, stop
        self.open_transactions, self.beside, self.early = open_transactions, beside, early
        self.partitions, self.outputs, self.services = partitions, outputs, services
        self.settings, self.drivers, self.watch = settings, drivers, watch
        self.pipeline, self.topic, self.shards = settings.pipeline, settings.topic, settings.shards
        self.topics = Topics(stack.endpoints.kafka_bootstrap, stack.replication)
        self.chain = self._chain(AWAY_S)
        self.campaign: Meanwhile = meanwhile or Campaign(
            faults,
            arsenal or ExecutorArsenal(drivers),
            drivers,
            watch,
            history,
            say=console.say,
            replaced_s=stack.patience.replaced_s,
            readings=() if services is None else services.seen,
        )
        self._sending: threading.Thread | None = None
        self._send_error: BaseException | None = None
        self._pool = ThreadPoolExecutor(1, "beside")
        self._beside: Future[None] | None = None
        self.witness = stack.witness(history)
        self.settings_path = directory.path / "settings.json"
        self.settings_path.write_text(settings.model_dump_json(indent=1))
        self.collector = Collector(
            directory, self.topics, self.chain, outputs, pipeline=self.pipeline, source=self.topic
        )
        self.reader = ConcurrentReader(
            directory,
            self.topics,
            self._chain(),
            {sink: f"{self.pipeline}.{sink}" for sink in outputs.declaration.topics},
            partitions=self.shards,
            object_sink=(*outputs.declaration.manifests, NO_FILES)[0],
        )

    def go(self) -> None:
        """Warm up, strike while sending, drain, epilogue; evidence is written as it comes.

        Raises whatever ended it early; where that was drivers that were refused, the evidence is there all the same.
        """
        sinks = {f"{self.pipeline}.{sink}": self.shards for sink in self.outputs.kafka}
        compacted = {f"{name}.progress": self.shards for name in sinks}
        said = {topic_of(self.topic): 1} if self.subject.gateways else {}
        self.topics.create({self.topic: self.partitions, **sinks}, {**compacted, **said})
        self.watch.start()
        self.witness.start()
        if self.services is not None:
            self.services.start(self.history)
        self.reader.start()
        try:
            refused = self._play()
            with self.console.step("collect evidence"):
                # What stopped the sender must not stop this.
                self.collector.collect(self.open_transactions, self.stop if refused is None else threading.Event())
                self.reader.finish()
                if not self.reader.complete:
                    self.console.say(f"✗ the concurrent reader did not come to the end: {self.reader.trouble}")
            if refused is not None:
                raise refused
            if self._beside is not None:
                self._beside.result()
        finally:
            # Stopped processes first: nobody else waits for one of them.
            self.campaign.end()
            self.reader.stop()
            self.drivers.end()
            self.watch.stop()
            self.witness.stop()
            if self.services is not None:
                self.services.stop()

    def _play(self) -> Exception | None:
        """Play everything up to the epilogue; return what ended it where drivers were refused.

        What readers see of such a run is evidence like that of any other, and the servers are there.
        """
        with self.directory.sent_writer() as lines, self._gateways() as gateways, self._pool:
            sender = self._sender(lines, gateways)
            try:
                self._main_act(sender)
                self._begin_beside()
                self._epilogue(sender)
            except BaseException as error:
                self.stop.set()
                if not (isinstance(error, Exception) and self.drivers.refused):
                    raise
                self._halt()
                return error
        return None

    def _halt(self) -> None:
        """Undo what is under way, and wait until nothing is sent and nobody publishes any more."""
        self.campaign.end()
        if self._sending is not None:
            self._sending.join(DRAIN_S)
        self.drivers.end()

    def _main_act(self, sender: Sender) -> None:
        self._begin()
        self.outputs.make(self.settings_path)
        patience = self.stack.patience
        with self.console.step("driver and executors"):
            self.drivers.start("driver", self.settings_path)
            self.watch.wait_for("the driver", lambda: bool(self.watch.seen), patience.driver_s, self.drivers.alive)
        with self.console.step(f"{self.subject.numbers.sent:,} records through the pipeline, {self.campaign.says}"):
            self._phase("steady")
            campaign = self.campaign
            campaign.start()
            sending = threading.Thread(target=self._guard(self._send), args=(sender,), name="sender", daemon=True)
            self._sending = sending
            sending.start()
            while sending.is_alive():
                sending.join(0.2)
                if self.early and self.struck_all:
                    self._begin_beside()
                dead = self.drivers.alive()
                if dead is not None:
                    self.stop.set()
                    raise RuntimeError(f"the driver ended while records were sent: {dead}")
            if self._send_error is not None:
                raise self._send_error
            self._phase("drain")
            self._await_published(sender)
            # A planned fault that no epoch is left for is a missed one; the judge counts it.
            campaign.drained.set()
            campaign.waiting.wait(DRAIN_S)
            campaign.stop_asked.set()
            campaign.join()
            if campaign.error is not None:
                raise campaign.error

    @property
    def struck_all(self) -> bool:
        """Whether every fault came and is undone; one that raised an error may still stand."""
        return not self.campaign.is_alive() and self.campaign.error is None

    def _begin_beside(self) -> None:
        """Begin what has an application and topics of its own, once."""
        if self._beside is None:
            self._beside = self._pool.submit(self.beside)

    def _guard(self, work: Callable[..., None]) -> Callable[..., None]:
        def guarded(*arguments: Any) -> None:
            try:
                work(*arguments)
            except BaseException as error:
                self._send_error = error

        return guarded

    def _send(self, sender: Sender) -> None:
        subject, records = self.subject, count_sends(self._portions(), self.history)
        if subject.rate is None:
            last = sender.send(records)
        else:
            last = sender.send_unpaced(records, subject.rate, subject.held)
        if not last:
            raise InterruptedError("stopped while sending")
        self.history.record("sent", acknowledged=sender.acknowledged)
        sender.wait_until_declared()

    def _portions(self) -> Iterator[Planned]:
        """The records; before each portion but the first, a fault is waited for that waits for its step.

        So there are records to hit an epoch with after every replacement, however long that takes. Some flow while a
        fault is undone that wants them: a driver that was replaced learns it from them.
        """
        portion = self.subject.portion
        for number, record in enumerate(self.subject.records()):
            if portion and number and number % portion == 0:
                campaign = self.campaign
                while not (campaign.more() or self.stop.is_set()):
                    campaign.waiting.wait(0.2)
            yield record

    def _await_published(self, sender: Sender) -> None:
        """Wait until everything sent lies in a published epoch."""

        def done() -> bool:
            head = self.chain.head()
            if head is None or head.pinned is None:
                return False
            spans = head.pinned["ranges"].get(self.topic, {})
            all_in = all(spans.get(str(p), (0, 0))[1] >= end for p, end in sender.ends.items())
            return all_in and self.watch.last_published >= head.last_pinned

        self.watch.wait_for("the last epoch", done, DRAIN_S, self.drivers.alive)

    def _latest(self, sender: Sender) -> int | None:
        """Time of the newest record; None where nothing is sent but the records of a file."""
        return sender.last_event_time_ms if self.outputs.transform is None else None

    def _closers(self, sender: Sender) -> Iterator[Planned]:
        """What closes every window, once all before it was sent."""
        if (latest := self._latest(sender)) is not None:
            first_n = self.subject.numbers.sent + 1
            first, second = closers(latest, first_n, self.subject.window_ms, self.subject.lateness_ms)
            yield from (first, second) if self.subject.rate is None else in_every_partition(first, self.partitions)

    def _settlers(self, sender: Sender) -> Iterator[Planned]:
        """What closes the windows that the last epoch ends."""
        if (latest := self._latest(sender)) is not None:
            one = settler(latest, self.subject.numbers.sent)
            yield from (one,) if self.subject.rate is None else in_every_partition(one, self.partitions)

    def _epilogue(self, sender: Sender) -> None:
        self._phase("epilogue")
        with self.console.step("epilogue: restarts with and without checkpoint, windows closed, records re-sent"):
            patience = self.stack.patience
            epilogue = Epilogue(
                self.directory,
                self.drivers,
                self.chain,
                self.watch,
                self.history,
                self.subject,
                self.settings_path,
                patience.take_over_s,
            )
            closing, settling = self._closers(sender), self._settlers(sender)
            epilogue.play(sender, self.collector.boundary, self._await_published, closing, settling)

    @contextmanager
    def _gateways(self) -> Iterator[Gateways | None]:
        """Have registered sources say how far they are, to the end of the run; None where there are none."""
        if not self.subject.gateways:
            yield None
            return
        publish = publisher(self._producer(), self.topic)
        with (
            self.directory.statements_writer() as lines,
            Gateways(self.subject.disorder_ms, self.subject.held.holds, publish, lines) as gateways,
        ):
            yield gateways

    def _producer(self) -> KafkaProducer:
        # A broker that is away is part of the plan; what it never acknowledged is told by the records.
        patient = {"log_level": 0, "delivery.timeout.ms": DELIVERY_MS}
        return kafka_producer(self.stack.endpoints.kafka_bootstrap, patient)

    def _sender(self, lines: LinesWriter, gateways: Gateways | None = None) -> Sender:
        def unacknowledged(record: Planned, error: str) -> None:
            self.history.record("unacknowledged", id=record.id, error=error)

        return Sender(
            self._producer(),
            lines,
            Pacer(self.subject.pace),
            self.chain.progress,
            unacknowledged=unacknowledged,
            stop=self.stop,
            target=Target(self.topic, self.partitions, DRAIN_S),
            gateways=gateways,
        )

    def _chain(self, patience_s: float = PATIENCE_S) -> ChainReader:
        address = BucketAddress(self.stack.endpoints.s3_endpoint, self.settings.s3_bucket)
        return ChainReader(address, self.pipeline, self.topic, patience_s)

    def _begin(self) -> None:
        """Record the first phase, and of which commit the run is: the history confirms what the manifest says."""
        told = self.directory.manifest_path.is_file()
        git: dict[str, Any] = {"git": self.directory.manifest().git} if told else {}
        self.history.record("phase", phase="warm-up", **git)

    def _phase(self, name: str) -> None:
        self.history.record("phase", phase=name)


def count_sends(records: Iterable[Planned], history: History, every: int = 2_000) -> Iterable[Planned]:
    """Pass records on and note every so often how many went."""
    for number, record in enumerate(records):
        if number % every == 0:
            history.record("sent", acknowledged=number)
        yield record
