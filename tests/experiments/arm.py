"""The play of one arm: its folder, its history, what broke it off, its sender, and what it left."""

from __future__ import annotations

import shutil
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, Unpack

from effectively_once.store.object_store import BucketAddress
from infra.console import Console
from tests.bench.facts import load
from tests.experiments.figures import FACTS, Facts
from tests.harness.history import History
from tests.harness.run_directory import RunDirectory
from tests.harness.stack.processes import Asked, Processes, Role
from tests.harness.stack.stack import Stack
from tests.harness.workload.pacing import Pace, Pacer
from tests.harness.workload.progress import Progress
from tests.harness.workload.record import Planned
from tests.harness.workload.sender import Sender, Target, kafka_producer

G = TypeVar("G", bound=Stack)
DRAIN_S, OUTSTANDING = 300.0, 1_000_000


@dataclass
class ArmPlay(ABC, Generic[G]):
    """One arm, from an empty topic to its evidence; whichever way `play` ends, no process of it is left.

    Attributes:
        directory: of this arm; evidence goes there.
        stack: where it runs.
        cpu_s: processor time by part, filled in as it goes where it is measured.

    """

    directory: RunDirectory
    stack: G
    console: Console
    stop: threading.Event = field(default_factory=threading.Event, init=False)
    cpu_s: dict[str, float] = field(default_factory=dict, init=False)
    history: History = field(init=False)
    processes: Processes = field(init=False)
    sender: Sender = field(init=False)
    sent: int = field(default=0, init=False)

    @property
    def name(self) -> str:
        """Of the arm, and of its folder."""
        return self.directory.path.name

    @abstractmethod
    def go(self) -> None:
        """Play it, from making its topics to the end of its drivers."""

    @abstractmethod
    def facts(self, **told: Any) -> Facts:
        """Note down what it left, with what every arm tells, and have nothing of it left."""

    def play(self) -> None:
        """Play it and write its evidence; what breaks it off is evidence too."""
        shutil.rmtree(self.directory.path, ignore_errors=True)
        self.directory.path.mkdir()
        broke_off, before = None, load()
        with History(self.directory.history_path) as self.history:
            try:
                self.go()
                self.history.end()
            except Exception as error:
                broke_off = f"{type(error).__name__}: {error}"
                self.console.say(f"✗ {self.name} broke off: {error}")
                self.history.record("phase", phase="broken off")
        facts = self.facts(load=(before, load()), broke_off=broke_off)
        self.directory.write_json(self.directory.path / FACTS, facts)
        shutil.rmtree(self.directory.path / "work", ignore_errors=True)

    @contextmanager
    def running(self, module: str, roles: Sequence[Role], partitions: int, **asked: Unpack[Asked]) -> Iterator[None]:
        """Make its topics, and run its drivers and a sender; `asked`: see `Stack.prepare`.

        Raises:
            WaitTimedOutError: a driver does not come up.

        """
        self.stack.create(self.directory, roles[0], partitions)
        self.processes = processes = self.stack.prepare(self.directory, self.history, module, roles, **asked)
        pipeline = roles[0].settings["pipeline"]
        with processes.following(), self.directory.sent_writer() as lines:
            self.sender = Sender(
                kafka_producer(self.stack.endpoints.kafka_bootstrap),
                lines,
                Pacer(Pace(horizon_ms=None, max_outstanding=OUTSTANDING)),
                settle_at_once(partitions),
                unacknowledged=note_unacknowledged(self.history),
                stop=self.stop,
                target=Target(pipeline, partitions, DRAIN_S),
            )
            with self.console.step(f"{self.name}: {len(roles)} to start"):
                processes.start()
                processes.watch.wait_for(
                    f"{len(roles)} drivers", self._started, self.stack.patience.driver_s, self.dead
                )
            yield
            for one in processes.drivers:
                one.stop()

    @contextmanager
    def part(self, name: str, says: str) -> Iterator[None]:
        """Tell of a part of the play, and measure what it uses."""
        self.history.record("phase", phase=name)
        began_s = self.processes.cpu_s()
        with self.console.step(f"{self.name}: {says}"):
            yield
        if began_s is not None:
            self.cpu_s[name] = round((self.processes.cpu_s() or 0.0) - began_s, 2)

    def send(self, records: Iterable[Planned], number: int) -> None:
        """Send so many records. Raises InterruptedError, RuntimeError: not all were acknowledged."""
        if not self.sender.send(records):
            raise InterruptedError("stopped while sending")
        self.sent += number
        if self.sender.failed:
            raise RuntimeError(f"the broker did not acknowledge {self.sender.failed} records")

    def dead(self) -> str | None:
        """Last words of the first driver that does not run and is not started again; None while all do."""
        return next((words for one in self.processes.drivers if (words := one.alive()) is not None), None)

    @property
    def store(self) -> Any:
        """The object store of its stack."""
        from effectively_once.store.listing import S3ListingStore  # noqa: PLC0415 - it asks for credentials

        endpoints = self.stack.endpoints
        return S3ListingStore(BucketAddress(endpoints.s3_endpoint, endpoints.s3_bucket))

    def used(self, pipeline: str) -> dict[str, Any]:
        """What every arm that is measured notes down of its costs."""
        sizes = [one.bytes for one in self.store.list_objects(f"{pipeline}/")]
        return {"cpu_s": self.cpu_s, "object_store_bytes": sum(sizes), "objects": len(sizes)}

    def _started(self) -> bool:
        seen = self.processes.watch.seen
        if len(self.processes.drivers) == 1:
            return bool(seen)
        told: int = sum(event["event"] == "driver" and event.get("state") == "started" for event in seen)
        return told >= len(self.processes.drivers)


def settle_at_once(partitions: int) -> Callable[[], Progress]:
    """Progress where there is no chain to wait for: what was sent counts as settled at once; the arm waits itself."""
    progress = Progress(ends=dict.fromkeys(range(partitions), 2**62))
    return lambda: progress


def note_unacknowledged(history: History) -> Callable[[Planned, str], None]:
    """Write down what the broker does not acknowledge."""

    def note(record: Planned, error: str) -> None:
        history.record("unacknowledged", id=record.id, error=error)

    return note


def wait_until_done(processes: Processes, who: str, records: int) -> None:
    """Wait until the job of a single driver is done with so many records. Raises WaitTimedOutError."""
    watch, (drivers,) = processes.watch, processes.drivers
    done = f"{who} to be done with {records:,} records"
    watch.wait_for(done, lambda: count_done(watch.seen) >= records, DRAIN_S, drivers.alive)


def count_done(seen: Sequence[dict[str, Any]]) -> int:
    """Return how many records a job is done with, by what it has announced.

    Epochs of the library tell how many records each has read, again when they are repeated. The other jobs tell the sum
    of the offsets below which they are done with everything; the topic has no gaps.
    """
    reached = max((event["reached"] for event in seen if "reached" in event), default=None)
    if reached is not None:
        return int(reached)
    read = {event["epoch"]: event["in"] for event in seen if event["event"] == "epoch" and "in" in event}
    return sum(read.values())
