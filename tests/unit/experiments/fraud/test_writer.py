"""The writer: holds what the store does not take, tells when, and loses nothing; the presenter beside it over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
import urllib3

from effectively_once.progress import VARIABLE
from effectively_once_jobs.fraud import writer as writer_module
from effectively_once_jobs.fraud.decision import Decision
from effectively_once_jobs.fraud.presenter import Listener, answer
from effectively_once_jobs.fraud.store import Stored, StoreDownError
from effectively_once_jobs.fraud.transaction import Refusal, Transaction
from effectively_once_jobs.fraud.writer import PORTION, Writer
from infra.embedded.process import wait_for

NUMBER = PORTION + 7


class Store:
    """A store that is down for its first calls."""

    def __init__(self, down: int, broken: Exception | None = None) -> None:
        self.down, self.broken = down, broken
        self.portions: list[list[str]] = []
        self.closed = False

    def cards(self) -> frozenset[str]:
        self._tried()
        return frozenset({"c"})

    def put(self, decisions: Sequence[Decision], refusals: Sequence[Refusal]) -> Stored:
        self._tried()
        self.portions.append([one.transaction.id for one in decisions])
        return Stored(len(decisions), 0, ())

    def close(self) -> None:
        self.closed = True

    def _tried(self) -> None:
        if self.broken:
            raise self.broken
        if self.down:
            self.down -= 1
            raise StoreDownError("connection refused")


@contextmanager
def writing(store: Any) -> Iterator[tuple[Writer, list[Decision | Refusal]]]:
    done: list[Decision | Refusal] = []
    writer = Writer(store, lambda portion, _: done.extend(portion))
    for n in range(NUMBER):
        writer.give(Decision(Transaction((0, n), 0, f"t{n}", "c", 5, 0, 0, 0), 14, {}))
    writer.start()
    try:
        yield writer, done
    finally:
        writer.end()
        writer.join(5.0)


class Emptied(Store):
    """A store whose table of cards is empty whenever it is asked, but for one time."""

    def __init__(self, filled: int) -> None:
        super().__init__(0)
        self.filled, self.asked = filled, 0

    def cards(self) -> frozenset[str]:
        self.asked += 1
        return frozenset({"c"} if self.asked == self.filled else ())


def test_a_table_without_cards_is_not_all_the_cards_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else every transaction would be refused as one of an unknown card, for good."""
    monkeypatch.setattr(writer_module, "CARDS_S", 0.0)
    monkeypatch.setattr(writer_module, "IDLE_S", 0.001)
    store = Emptied(filled=3)
    before: list[frozenset[str] | None] = []
    with writing(store) as (writer, _):

        def there() -> bool:
            before.append(writer.cards)
            return writer.cards is not None

        wait_for("the cards", 5.0, there)
        wait_for("more answers", 5.0, lambda: store.asked >= 6)
        assert writer.cards == frozenset({"c"})
    assert frozenset() not in before


def test_what_the_store_does_not_take_is_held_and_told_and_stored_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "events.jsonl"))
    store = Store(down=3)
    with writing(store) as (writer, done):
        wait_for("all of it", 20.0, lambda: len(done) == NUMBER)
        assert writer.cards == frozenset({"c"})
    told = [orjson.loads(line) for line in (tmp_path / "events.jsonl").read_bytes().splitlines()]
    assert [one["state"] for one in told] == ["holding", "storing"], "once each, however often it is tried"
    assert told[0]["says"] == "connection refused"
    assert [len(one) for one in store.portions] == [PORTION, NUMBER - PORTION]
    assert [id_ for portion in store.portions for id_ in portion] == [f"t{n}" for n in range(NUMBER)]
    assert store.closed


def test_a_defect_ends_the_writer_and_is_not_taken_for_a_store_that_is_down() -> None:
    defect = ValueError("no such column")
    with writing(Store(0, defect)) as (writer, done):
        writer.join(10.0)
        assert writer.failed is defect
        assert done == []


class Decisions:
    """What the presenter looks into."""

    def find(self, id_: str) -> dict[str, Any] | None:
        if id_ == "down":
            raise StoreDownError("gone")
        known = {"t1": {"id": "t1", "outcome": "approved"}, "t2": {"id": "t2", "reason": "ahead"}}
        return known.get(id_)


@pytest.mark.parametrize(
    ("path", "status", "field"),
    [
        ("/decisions/t1", 200, ("outcome", "approved")),
        ("/decisions/t1?x=1", 200, ("outcome", "approved")),
        ("/decisions/t2", 200, ("outcome", "refused")),
        ("/decisions/t%31", 200, ("outcome", "approved")),
        ("/decisions/t3", 404, ("error", "unknown_transaction")),
        ("/decisions/", 400, ("error", "bad_id")),
        ("/decisions/a%20b", 400, ("error", "bad_id")),
        ("/decisions/a/b", 400, ("error", "bad_id")),
        (f"/decisions/{'x' * 65}", 400, ("error", "bad_id")),
        ("/decisions/%00", 400, ("error", "bad_id")),
        ("/", 404, ("error", "no_such_path")),
        ("/decisions", 404, ("error", "no_such_path")),
        ("/decisions/down", 503, ("error", "store_down")),
    ],
)
def test_the_presenter_answers_each_path(path: str, status: int, field: tuple[str, str]) -> None:
    found, document = answer(path, Decisions())
    assert (found, document[field[0]]) == (status, field[1])
    assert found == 200 or document["says"], "an answer that is none says what to do"


def test_the_presenter_serves_over_http() -> None:
    with Listener("127.0.0.1", 0, Decisions()) as listener, urllib3.PoolManager(retries=False, timeout=5.0) as http:
        threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        base = f"http://127.0.0.1:{listener.server_address[1]}/decisions"
        found = http.request("GET", f"{base}/t1")
        assert (found.status, found.headers["Content-Type"]) == (200, "application/json")
        assert orjson.loads(found.data) == {"id": "t1", "outcome": "approved"}
        assert http.request("GET", f"{base}/t9").status == 404
        assert http.request("GET", f"{base}/down").headers["Retry-After"] == "1"
        assert http.request("POST", f"{base}/t1").status == 501
        listener.shutdown()
