"""The payment service as a process: HTTP around the book and its journal.

    python -m tests.experiments.card_ledger.payments.service --port 8080 --journal journal.jsonl --cards 40

| request | answer |
|---|---|
| `POST /charge` `{"card", "amount", "transaction"}`, optional header `Idempotency-Key` | 200 `{"outcome", "balance"}` |
| `POST /set_card_balance` `{"card", "balance", "version"}` | 200 `{"outcome", "balance"}` |
| `GET /cards` | 200 `{card: {"balance", "version"}}` |
| `GET /journal` | 200, the journal as it is |

`outcome` is `charged` or `set`, or `repeated` where the same call took effect before. Everything else is
`{"error": code, "says": ...}`: 400 no such body, 404 no such card or path, 409 and 412 a contradiction, 422 an
impossible amount, 503 nothing happened and the call may be repeated.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType
from typing import Any

import orjson
from pydantic import ValidationError

from infra.embedded.ports import HOST
from tests.experiments.card_ledger.payments.book import (
    Book,
    Call,
    Charge,
    Entry,
    RefusedError,
    SetCardBalance,
    card_names,
)
from tests.experiments.card_ledger.payments.journal import Journal
from tests.experiments.card_ledger.payments.mischief import Mischief

BODY_BYTES = 10_000
WITHHELD_S = 60.0
"""So long at most a caller is kept without an answer; it hangs up itself before that."""
KEY, CALLER = "Idempotency-Key", "X-Caller"


class Payments:
    """One call after the other: decided, written down, taken in, answered.

    Args:
        cards: those that there are.
        journal: what took effect before, and what does from now on.
        mischief: which calls go wrong.
    """

    def __init__(self, cards: Sequence[str], journal: Journal, mischief: Mischief) -> None:
        self.book, self._journal, self._mischief = Book(cards), journal, mischief
        self._lock = threading.Lock()
        self._next = 0
        for entry in journal.kept:
            self._take(entry)
            mischief.note(entry.call)

    def answer(self, call: Call, caller: str) -> Entry:
        """Carry a call out. Raises RefusedError and OSError; a refusal is in the journal too."""
        with self._lock:
            trouble = self._mischief.of(call)
            told: dict[str, Any] = {
                "n": self._next,
                "t": time.time_ns() // 1_000_000,
                "caller": caller,
                "call": call,
            }
            if trouble == "unavailable":
                return self._write(Entry(**told, outcome="unavailable"))
            try:
                outcome, balance = self.book.decide(call)
            except RefusedError as refused:
                self._write(Entry(**told, outcome="refused", code=refused.code))
                raise
            return self._write(Entry(**told, outcome=outcome, balance=balance, late=trouble == "late"))

    def cards(self) -> dict[str, dict[str, int]]:
        """Every account."""
        with self._lock:
            return {card: vars(account).copy() for card, account in self.book.accounts.items()}

    def journal(self) -> bytes:
        """Every entry so far, a line each."""
        with self._lock:
            return self._journal.content()

    def _write(self, entry: Entry) -> Entry:
        self._journal.append(entry)
        self._take(entry)
        return entry

    def _take(self, entry: Entry) -> None:
        self.book.apply(entry)
        self._next = entry.n + 1


class Handler(BaseHTTPRequestHandler):
    """One connection of a caller."""

    protocol_version = "HTTP/1.1"
    # Head and body of an answer are two writes: they are not to wait for each other.
    disable_nagle_algorithm = True
    payments: Payments

    def do_POST(self) -> None:
        """A call."""
        try:
            entry = self.payments.answer(self._call(), self.headers.get(CALLER) or "nobody")
        except RefusedError as refused:
            self._say(refused.status, {"error": refused.code, "says": str(refused)})
            return
        if entry.outcome == "unavailable":
            self._say(503, {"error": "unavailable", "says": "nothing happened; try again"})
        elif entry.late:
            self._withhold()
        else:
            self._say(200, {"outcome": entry.outcome, "balance": entry.balance})

    def do_GET(self) -> None:
        """What there is."""
        if self.path == "/cards":
            self._say(200, self.payments.cards())
        elif self.path == "/journal":
            self._send(200, "application/x-ndjson", self.payments.journal())
        else:
            self._say(404, {"error": "no_such_path", "says": f"there is no {self.path}; there are /cards and /journal"})

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class calls it so
        """Nothing: the journal tells."""

    def _call(self) -> Call:
        try:
            length = int(self.headers.get("Content-Length") or "")
        except ValueError:
            length = -1
        if not 0 <= length <= BODY_BYTES:
            # The body is not read, so nothing that follows on this connection could be.
            self.close_connection = True
            raise RefusedError(400, "bad_request", f"a body of 0 to {BODY_BYTES} bytes with its length is needed")
        body = self.rfile.read(length)
        try:
            fields = orjson.loads(body)
            if self.path == "/charge":
                # A key in the body as well as in the head would be given twice: a TypeError too.
                return Charge(**fields, key=self.headers.get(KEY))
            if self.path == "/set_card_balance":
                return SetCardBalance(**fields)
        except orjson.JSONDecodeError as error:
            raise RefusedError(400, "bad_request", f"the body is no JSON: {error}") from error
        except TypeError as error:
            raise RefusedError(400, "bad_request", f"the body is no JSON object of a call's fields: {error}") from error
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"]))
            raise RefusedError(400, "bad_request", f"{field}: {first['msg']}") from error
        raise RefusedError(404, "no_such_path", f"there is no {self.path}; there are /charge and /set_card_balance")

    def _withhold(self) -> None:
        """Answer nothing until the caller hangs up."""
        self.close_connection = True
        self.connection.settimeout(WITHHELD_S)
        try:
            self.connection.recv(1)
        except OSError:
            return

    def _say(self, status: int, document: Any) -> None:
        self._send(status, "application/json", orjson.dumps(document))

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Listener(ThreadingHTTPServer):
    """A thread a connection; those that still hang when the service ends are left."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, port: int, payments: Payments, host: str = HOST) -> None:
        # A handler of its own for each service: tests have several in one process.
        super().__init__((host, port), type("Bound", (Handler,), {"payments": payments}))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that was killed leaves a broken connection: no news. Anything else is a defect, and is told."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m tests.experiments.card_ledger.payments.service")
    parser.add_argument("--port", type=int, required=True, help="where it listens")
    parser.add_argument("--host", default=HOST, help="address to listen at (%(default)s); 0.0.0.0 in a pod")
    parser.add_argument("--journal", type=Path, required=True, help="goes on where it ends")
    parser.add_argument("--cards", type=int, required=True, help="how many there are: card-0000, card-0001, ...")
    parser.add_argument("--seed", type=int, default=0, help="draws which calls go wrong")
    parser.add_argument("--late", type=float, default=0.0, help="share of calls whose answer is withheld")
    parser.add_argument("--unavailable", type=float, default=0.0, help="share of calls that get 503")
    given = parser.parse_args(arguments)

    def end(_number: int, _frame: FrameType | None) -> None:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, end)
    try:
        mischief = Mischief(given.seed, given.late, given.unavailable)
    except ValueError as wrong:
        parser.error(str(wrong))
    journal = Journal(given.journal)
    payments = Payments(card_names(given.cards), journal, mischief)
    with Listener(given.port, payments, given.host) as listener:
        listener.serve_forever(poll_interval=0.1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
