"""The payment service beside the embedded stack: started, killed and restarted as its servers are."""

from __future__ import annotations

import sys
from pathlib import Path

import orjson
import urllib3

from infra.embedded.ports import HOST
from infra.embedded.process import Child, wait_for
from infra.embedded.server import Server
from infra.toolchain.prepare import CHECKOUT
from tests.experiments.card_ledger.payments.mischief import Mischief

START_TIMEOUT_S = 30.0  # under 1 s on an idle machine


class PaymentService(Server):
    """One service with accounts of its own.

    Args:
        journal: its file.
        log: of its process.
        cards: how many there are.
        mischief: which calls go wrong.
    """

    name = "payment service"

    def __init__(self, journal: Path, log: Path, cards: int, mischief: Mischief) -> None:
        super().__init__(log)
        self.journal, self._cards, self._mischief = journal.absolute(), cards, mischief
        self._port = 0

    @property
    def address(self) -> str:
        """Base URL; the same after a restart."""
        return f"http://{HOST}:{self._port}"

    @property
    def inside(self) -> str:
        """The same: the pipeline runs on this machine too."""
        return self.address

    def start(self) -> None:
        """Start, and return when it answers. Raises ServerError."""
        self._start_on(1, self._at)

    def keep(self) -> None:
        """Nothing: the journal is a file of the run already."""

    def cards(self) -> dict[str, dict[str, int]]:
        """Every account, as the service tells it."""
        with urllib3.PoolManager(retries=False, timeout=5.0) as http:
            found: dict[str, dict[str, int]] = orjson.loads(http.request("GET", f"{self.address}/cards").data)
        return found

    def _at(self, ports: list[int], _attempt: int) -> None:
        (self._port,) = ports

    def _launch(self) -> None:
        trouble = self._mischief
        words = {
            "port": self._port,
            "journal": self.journal,
            "cards": self._cards,
            "seed": trouble.seed,
            "late": trouble.late,
            "unavailable": trouble.unavailable,
        }
        argv = [sys.executable, "-m", "tests.experiments.card_ledger.payments.service"]
        argv += [word for name, value in words.items() for word in (f"--{name}", str(value))]
        path = f"{CHECKOUT}:{CHECKOUT / 'pipelines' / 'src'}"
        self.journal.parent.mkdir(parents=True, exist_ok=True)
        child = Child(self.name, argv, self._log, cwd=self.journal.parent, env={"PYTHONPATH": path})
        self._child = child
        wait_for(f"payment service at {self.address}", START_TIMEOUT_S, lambda: bool(self.cards()), child)
