"""The presenter: a small HTTP service that answers what was decided about a transaction.

    python -m effectively_once_jobs.fraud.presenter --port 8080 --database postgresql://host:5432/results

or with `--settings FILE`, the job's own, in place of the database.

| `GET /decisions/ID` | answer |
|---|---|
| decided | 200 `{"id", "outcome", "partial", "missing", "points", "arrived_ms", "decided_ms", "stored_ms"}` |
| refused | 200 `{"id", "outcome": "refused", "reason"}` |
| no such transaction (yet) | 404 `{"error": "unknown_transaction", "says"}` |
| an id that is none | 400 `{"error": "bad_id", "says"}` |
| the result store does not answer | 503 `{"error": "store_down", "says"}` |

User and password of the result store are in the environment.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

import orjson

from effectively_once.errors import PipelineError
from effectively_once_jobs.fraud.settings import load
from effectively_once_jobs.fraud.store import ResultStore, StoreDownError
from effectively_once_jobs.fraud.transaction import NAME

PATH = "/decisions/"


class Decisions(Protocol):
    """Where decisions are looked up."""

    def find(self, id_: str) -> dict[str, Any] | None:
        """See ResultStore."""
        ...


def answer(path: str, decisions: Decisions) -> tuple[int, dict[str, Any]]:
    """Status and document for a path."""
    where = urlsplit(path).path
    if not where.startswith(PATH):
        return 404, {"error": "no_such_path", "says": f"there is {PATH}ID, with the id of a transaction"}
    id_ = unquote(where.removeprefix(PATH))
    if not NAME.fullmatch(id_):
        return 400, {"error": "bad_id", "says": "an id has 1 to 64 letters, digits, dots, dashes and underscores"}
    try:
        found = decisions.find(id_)
    except StoreDownError:
        return 503, {"error": "store_down", "says": "the result store does not answer; ask again"}
    if found is None:
        return 404, {"error": "unknown_transaction", "says": f"no transaction {id_} was decided up to now"}
    return 200, {**found, "outcome": "refused"} if "reason" in found else found


class Locked:
    """A session that several connections share, one after the other."""

    def __init__(self, store: ResultStore) -> None:
        self._store, self._lock = store, threading.Lock()

    def find(self, id_: str) -> dict[str, Any] | None:
        """See ResultStore. A session that broke while nobody asked is opened anew once."""
        with self._lock:
            try:
                return self._store.find(id_)
            except StoreDownError:
                return self._store.find(id_)


class Handler(BaseHTTPRequestHandler):
    """One connection of a caller."""

    protocol_version = "HTTP/1.1"
    # Head and body of an answer are two writes: they are not to wait for each other.
    disable_nagle_algorithm = True
    decisions: Decisions

    def do_GET(self) -> None:
        """Answer."""
        status, document = answer(self.path, self.decisions)
        body = orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if status == 503:
            self.send_header("Retry-After", "1")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class calls it so
        """Nothing: whoever asks has the answer."""


class Listener(ThreadingHTTPServer):
    """A thread a connection; those that are open when the service ends are left."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, host: str, port: int, decisions: Decisions) -> None:
        super().__init__((host, port), type("Bound", (Handler,), {"decisions": decisions}))


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m effectively_once_jobs.fraud.presenter")
    parser.add_argument("--host", default="127.0.0.1", help="(%(default)s)")
    parser.add_argument("--port", type=int, required=True)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--database", help="postgresql://host:port/database")
    where.add_argument("--settings", type=Path, help="the job's settings file, which names it")
    given = parser.parse_args(arguments)

    def end(_number: int, _frame: FrameType | None) -> None:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, end)
    try:
        database = given.database or load(given.settings).database
        store = Locked(ResultStore(database, "fraud presenter"))
    except PipelineError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    with Listener(given.host, given.port, store) as listener:
        listener.serve_forever(poll_interval=0.1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
