"""Plays one way of the card ledger: records in, kills, all published, the journal kept."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from effectively_once_jobs import card_ledger
from effectively_once_jobs.card_ledger.payments import VARIABLE, Payments, PaymentsError, StaleBalanceError
from infra.console import Console
from tests.experiments.card_ledger.payments.book import SetCardBalance
from tests.experiments.card_ledger.payments.journal import entries
from tests.experiments.card_ledger.payments.mischief import Mischief
from tests.experiments.card_ledger.service import Service, arsenal_on, service_on
from tests.experiments.card_ledger.ways import RESTRUCTURED, Way, plan
from tests.experiments.card_ledger.workload import CARD, TIME
from tests.harness.act import PARTITIONS, Act
from tests.harness.adapters.job_home import PROGRAM
from tests.harness.history import History
from tests.harness.portions import rows_of
from tests.harness.run_directory import RunDirectory
from tests.harness.stack.processes import Role
from tests.harness.stack.stack import Patience, Stack

SHARDS = 2
PATIENCE = Patience(driver_s=240.0, replaced_s=120.0, take_over_s=180.0)
LATE, UNAVAILABLE = 0.01, 0.02
"""Shares of first calls about a charge or balance that get no answer, or 503."""


LATE_WRITER = "a writer that comes too late"


class WayAct(Act):
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
class Play:
    """One way, on a stack that is there.

    Attributes:
        way: which.
        directory: where its files go.
        stack: where its pipeline runs.
        records: the file that is sent.
        seed: draws the kills, and which calls of the service go wrong.
        kills: how many.
        console: tells what is under way.
        stop: set from outside to end early.
    """

    way: Way
    directory: RunDirectory
    stack: Stack
    records: Path
    seed: int
    kills: int
    console: Console
    stop: threading.Event = field(default_factory=threading.Event)

    def go(self) -> None:
        """Run it, and write its evidence; whichever way it ends, driver and service are gone."""
        directory, stack = self.directory, self.stack
        planned = plan(self.way, self.seed, self.kills, SHARDS)
        pipeline = getattr(card_ledger, self.way.name)
        subject = rows_of(self.records, CARD, TIME, [one.strike for one in planned], pipeline.defaults)
        role = self._role({**pipeline.defaults, "epoch_rows_max": subject.epoch_rows_max})
        service = service_on(stack, self.way, directory, Mischief(self.seed, LATE, UNAVAILABLE))
        with History(directory.history_path) as history, ExitStack() as held:
            held.callback(service.stop)
            with self.console.step(f"payment service of {self.way.name}"):
                service.start()
            processes = stack.prepare(directory, history, PROGRAM, [role], environment={VARIABLE: service.inside})
            drivers: Any = processes.drivers[0]
            act = WayAct(
                directory,
                history,
                stack,
                subject,
                settings=stack.settings(role),
                drivers=drivers,
                watch=processes.watch,
                faults=planned,
                console=self.console,
                stop=self.stop,
                arsenal=arsenal_on(stack, processes, self.console.say),
                open_transactions=list,
            )
            act.kafka_sinks = pipeline.kafka_sinks
            act.go()
            service.keep()
            if self.way == RESTRUCTURED:
                late = tell_late(service)
                self.console.say(f"✓ {late} balances told again by a writer that comes too late: refused")
                service.keep()
            history.end()
        shutil.rmtree(directory.path / "work", ignore_errors=True)

    def _role(self, settings: Mapping[str, Any]) -> Role:
        """The driver of the way; `settings` are of its pipeline, but for names and addresses."""
        pipeline = self.stack.pipeline(f"cards_{self.way.name}")
        own = {"pipeline": pipeline, "topic": f"transactions_{pipeline}", "job": self.way.job, "shards": SHARDS}
        return Role({**settings, **own}, {})


def tell_late(service: Service) -> int:
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
