"""The course of a run: phase after phase, each until all of it is decided, and questions to the presenter."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from infra.console import Console
from infra.embedded.process import wait_for
from tests.bench.facts import load
from tests.experiments.fraud.answers import BACK, DOWN, UP
from tests.experiments.fraud.kills import Strike
from tests.experiments.fraud.outputs import Outputs
from tests.experiments.fraud.plan import Phase
from tests.experiments.fraud.sender import Sender
from tests.experiments.fraud.store import Presenting
from tests.harness.faults.fault import Fault
from tests.harness.faults.healing import Healing
from tests.harness.history import History
from tests.harness.run_directory import LinesWriter
from tests.harness.stack.processes import Processes

DRAIN_S = 90.0
ASKED_IDS = 20
FIRST, NOBODY, NO_ID = "t0000000", "t9999999", "no%20id"


@dataclass
class Course:
    """What the phases of a run share.

    Attributes:
        processes: the job.
        fall: makes the kill of the result store.
        asked: takes what the presenter answered.
    """

    sender: Sender
    processes: Processes
    fall: Callable[[Healing], Fault]
    outputs: Outputs
    presenter: Presenting
    asked: LinesWriter
    history: History
    console: Console

    def phase(self, number: int, phase: Phase, stream: Iterator[tuple[str, bytes]]) -> None:
        """Send it, kill somebody meanwhile if that is planned, and wait until everything sent is decided.

        Raises:
            ServerError: something did not come in time.
            ClusterTimeoutError: what was killed did not come back.
            NoProcessError: there was nobody to be killed.
        """
        self.history.record("phase", phase=phase.name, number=number, load=load())
        kill = phase.kill
        strike = kill and Strike(
            kill.target,
            self.processes,
            fall=self.fall,
            outputs=self.outputs,
            history=self.history,
            while_down=self._ask_away,
        )

        def sent(count: int) -> None:
            if strike and kill and count == kill.after:
                self.console.say(f"  kill -9 {kill.target}")
                strike.start()

        with self.console.step(f"{phase.name}: {phase.records:,} transactions at {phase.rate} a second"):
            self.sender.send(number, islice(stream, phase.records), phase.rate, sent)
            if strike:
                strike.join()
                if strike.error is not None:
                    raise strike.error
            wait_for(
                f"decisions about {self.sender.acknowledged:,} records",
                DRAIN_S,
                lambda: self.outputs.number() >= self.sender.acknowledged,
            )
        self.history.record("settled", number=number, load=load())

    def ask(self, seed: int, records: int) -> None:
        """Ask for some of the transactions that were sent, for one that never was, and for something that is no id."""
        for number in random.Random(f"asked of {seed}").sample(range(records), ASKED_IDS):
            self._ask(f"t{number:07d}")
        self._ask(NOBODY)
        self._ask(NO_ID)

    def _ask(self, id_: str) -> None:
        self._note_answer(id_, *self.presenter.ask(id_), UP)

    def _ask_away(self) -> None:
        """Ask once the store was killed: as long as it does not answer now it was away when the presenter asked it."""
        status, document = self.presenter.ask(FIRST)
        self._note_answer(FIRST, status, document, DOWN if self.outputs.number() < 0 else BACK)

    def _note_answer(self, id_: str, status: int, document: Any, store: str) -> None:
        self.asked.write({"id": id_, "store": store, "status": status, "document": document})
