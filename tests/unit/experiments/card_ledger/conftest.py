"""A payment service that listens on loopback, in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
import urllib3

from tests.experiments.card_ledger.payments.book import Entry, card_names
from tests.experiments.card_ledger.payments.journal import Journal, entries
from tests.experiments.card_ledger.payments.mischief import Mischief
from tests.experiments.card_ledger.payments.service import Listener, Payments

CARDS = 3


@dataclass
class Running:
    """Where it listens, and its journal."""

    address: str
    journal: Path

    def post(self, path: str, body: Any, timeout: float = 10.0, /, **headers: str) -> tuple[int, dict[str, Any]]:
        """One call, made once: status and answer."""
        content = body if isinstance(body, bytes) else orjson.dumps(body)
        whole = {name.replace("_", "-"): value for name, value in headers.items()}
        with urllib3.PoolManager(retries=False, timeout=timeout) as http:
            answer = http.request("POST", f"{self.address}/{path}", body=content, headers=whole)
        return answer.status, orjson.loads(answer.data)

    def charge(self, amount: object = 5, card: object = "card-0001", **headers: str) -> tuple[int, dict[str, Any]]:
        return self.post("charge", {"card": card, "amount": amount, "transaction": "t1"}, 10.0, **headers)

    def set(self, balance: int, version: int, card: str = "card-0001") -> tuple[int, dict[str, Any]]:
        return self.post("set_card_balance", {"card": card, "balance": balance, "version": version})

    def account(self, card: str = "card-0001") -> dict[str, int]:
        with urllib3.PoolManager(retries=False) as http:
            found: dict[str, int] = orjson.loads(http.request("GET", f"{self.address}/cards").data)[card]
        return found

    def entries(self) -> list[Entry]:
        return list(entries(self.journal))


@contextmanager
def running(path: Path, mischief: Mischief) -> Iterator[Running]:
    journal = Journal(path)
    with Listener(0, Payments(card_names(CARDS), journal, mischief)) as listener:
        thread = threading.Thread(target=listener.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield Running(f"http://127.0.0.1:{listener.server_address[1]}", path)
        finally:
            listener.shutdown()
            thread.join()
            journal.close()


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Start a service; a second one goes on with the journal of the first."""
    with ExitStack() as stack:
        yield lambda **shares: stack.enter_context(running(tmp_path / "journal.jsonl", Mischief(7, **shares)))


@pytest.fixture
def service(begin: Callable[..., Running]) -> Running:
    """One that makes no trouble."""
    return begin()
