"""Plays one way of the card ledger on the embedded stack: records in, kills, all published, the journal kept."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from effectively_once.settings import PipelineSettings
from effectively_once_jobs import card_ledger
from effectively_once_jobs.card_ledger.payments import VARIABLE, Payments, PaymentsError, StaleBalanceError
from infra.console import Console
from infra.embedded.job import Job
from infra.embedded.stack import EmbeddedStack
from infra.toolchain.prepare import Toolchain
from tests.harness.act import PARTITIONS
from tests.harness.adapters.events import Watch
from tests.harness.adapters.hold import Hold
from tests.harness.adapters.supervised import SupervisedDrivers
from tests.harness.cards.judge import JOURNAL
from tests.harness.cards.ways import RESTRUCTURED, Way, plan
from tests.harness.cards.workload import CARD, CARDS, TIME
from tests.harness.faults.driver import KilledDriver
from tests.harness.faults.executor import EndedExecutors
from tests.harness.faults.healing_arsenal import HealingArsenal, Makers
from tests.harness.faults.transaction import Lost
from tests.harness.history import History
from tests.harness.mixture import DRIVER, SIGKILL
from tests.harness.own_act import PROGRAM, OwnAct, OwnHome
from tests.harness.own_plan import subject_of
from tests.harness.payments.book import SetCardBalance
from tests.harness.payments.journal import entries
from tests.harness.payments.mischief import Mischief
from tests.harness.payments.server import PaymentService
from tests.harness.place import Patience, Place
from tests.harness.run_directory import RunDirectory
from tests.harness.schedule import EXECUTOR
from tests.harness.subject import Subject

SHARDS = 2
PATIENCE = Patience(driver_s=180.0, replaced_s=120.0, take_over_s=120.0)
LATE, UNAVAILABLE = 0.01, 0.02
"""Shares of first calls about a charge or balance that get no answer, or 503."""


LATE_WRITER = "a writer that comes too late"


class WayAct(OwnAct):
    """What happens to one way: its journal is all that is looked at afterwards, so nothing is read from its sinks."""

    kafka_sinks: Sequence[str] = ()

    def go(self) -> None:
        """Send under kills until everything is published, then stop the driver in order."""
        sinks = {f"{self.pipeline}.{sink}": self.shards for sink in self.kafka_sinks}
        self.topics.create({self.topic: PARTITIONS, **sinks}, {f"{name}.progress": self.shards for name in sinks})
        self.watch.start()
        try:
            with self.directory.sent_writer() as lines:
                self._main_act(self._sender(lines))
            self.drivers.stop()
        finally:
            self.campaign.end()
            self.drivers.end()
            self.watch.stop()


@dataclass
class CardKills(HealingArsenal):
    """Executors and drivers, SIGKILLed while the task that announced the step is held there, and gone with them."""

    torn_down = True

    drivers: SupervisedDrivers
    watch: Watch
    hold: Hold

    def _makers(self) -> Makers:
        drivers, watch = self.drivers, self.watch
        return {
            (SIGKILL, EXECUTOR): lambda: Lost(
                EndedExecutors(drivers, SIGKILL, everyone=False), self.hold, self.healing
            ),
            (SIGKILL, DRIVER): lambda: Lost(KilledDriver(drivers, watch), self.hold, self.healing),
        }


@dataclass
class Play:
    """One way, on a stack that is there.

    Attributes:
        way: which.
        directory: where its files go.
        stack: broker and object store.
        toolchain: of the stack.
        records: the file that is sent.
        seed: draws the kills, and which calls of the service go wrong.
        kills: how many.
        console: tells what is under way.
        class_archive: shared class data of Spark's JVMs.
        stop: set from outside to end early.
    """

    way: Way
    directory: RunDirectory
    stack: EmbeddedStack
    toolchain: Toolchain
    records: Path
    seed: int
    kills: int
    console: Console
    class_archive: Path | None = None
    stop: threading.Event = field(default_factory=threading.Event)

    def go(self) -> None:
        """Run it, and write its evidence; whichever way it ends, driver and service are gone."""
        directory, endpoints = self.directory, self.stack.endpoints
        os.environ["AWS_ACCESS_KEY_ID"] = endpoints.s3_access_key
        os.environ["AWS_SECRET_ACCESS_KEY"] = endpoints.s3_secret_key
        mischief = Mischief(self.seed, LATE, UNAVAILABLE)
        service = PaymentService(directory.path / JOURNAL, directory.logs / "payments.log", CARDS, mischief)
        with ExitStack() as held:
            history = held.enter_context(History(directory.history_path))
            held.callback(service.stop)
            service.start()
            self._act(history, service.address).go()
            if self.way == RESTRUCTURED:
                late = told_late(service)
                self.console.say(f"✓ {late} balances told again by a writer that comes too late: refused")
            history.end()
        shutil.rmtree(directory.path / "work", ignore_errors=True)

    def _act(self, history: History, payments: str) -> WayAct:
        directory, endpoints = self.directory, self.stack.endpoints
        planned = plan(self.way, self.seed, self.kills, SHARDS)
        job = Job(self._settings)
        pipeline = getattr(card_ledger, self.way.name)
        subject = subject_of(self.records, CARD, TIME, [one.strike for one in planned], pipeline.defaults)
        hold = Hold(directory.path.absolute() / "work" / "points")
        home = OwnHome(
            self.toolchain, endpoints, directory.path, self.class_archive,
            environment={**job.environment(self.toolchain), **hold.env, VARIABLE: payments},
        )  # fmt: skip
        watch = Watch(directory.path.absolute() / "work" / "events.jsonl", history)
        drivers = SupervisedDrivers(home, PROGRAM, watch.path, history=history, say=self.console.say)
        place = Place(endpoints, self._complete(subject, pipeline.defaults), drivers, watch, patience=PATIENCE)
        act = WayAct(
            directory, history, place, subject, faults=planned, console=self.console, stop=self.stop,
            arsenal=CardKills(drivers, watch, hold, say=self.console.say), open_transactions=list,
        )  # fmt: skip
        act.kafka_sinks = pipeline.kafka_sinks
        return act

    @property
    def _settings(self) -> dict[str, Any]:
        name = f"cards_{self.way.name}"
        return {"pipeline": name, "topic": f"{self.way.name}_transactions", "job": self.way.job, "shards": SHARDS}

    def _complete(self, subject: Subject, defaults: Mapping[str, Any]) -> PipelineSettings:
        endpoints = self.stack.endpoints
        return PipelineSettings(
            **{**defaults, **self._settings}, kafka_bootstrap=endpoints.kafka_bootstrap,
            s3_endpoint=endpoints.s3_endpoint, s3_bucket=endpoints.s3_bucket, epoch_rows_max=subject.epoch_rows_max,
        )  # fmt: skip


def told_late(service: PaymentService) -> int:
    """Tell every card's first balance once more, as a writer would that slept meanwhile; how many were refused.

    Raises:
        PaymentsError: the service took one.
    """
    first: dict[str, SetCardBalance] = {}
    last: dict[str, SetCardBalance] = {}
    for entry in entries(service.journal):
        if entry.effective and isinstance(entry.call, SetCardBalance):
            first.setdefault(entry.call.card, entry.call)
            last[entry.call.card] = entry.call
    late = [call for card, call in first.items() if call != last[card]]
    payments = Payments(service.address, LATE_WRITER)
    for call in late:
        try:
            payments.set_card_balance(call.card, call.balance, call.version)
        except StaleBalanceError:
            continue
        raise PaymentsError(f"version {call.version} of card {call.card!r} was taken, and a newer one is there")
    return len(late)
