"""The result store of fraud detection on a real PostgreSQL: what is stored twice is there once, and it may be away."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from psycopg import sql

from effectively_once_jobs.fraud.decision import Decision
from effectively_once_jobs.fraud.presenter import Locked, answer
from effectively_once_jobs.fraud.store import SCHEMA, ResultStore, Stored, StoreDownError
from effectively_once_jobs.fraud.transaction import Refusal, Transaction
from infra.embedded.postgres import PostgresServer
from tests.database import postgres

ALL = {"average": 30, "count": 20, "proximity": 0}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with postgres(tmp_path_factory.mktemp("store")) as running:
        with running.connect() as connection:
            connection.execute(SCHEMA)
            connection.execute("INSERT INTO fraud.cards VALUES ('c1'), ('c2')")
        yield running


@pytest.fixture
def store(server: PostgresServer) -> Iterator[ResultStore]:
    with server.connect() as connection:
        connection.execute("TRUNCATE fraud.decisions, fraud.refusals")
    running = ResultStore(server.url, "test")
    yield running
    running.close()


def decision(id_: str, offset: int, amount: int = 5, points: dict[str, int] | None = None) -> Decision:
    return Decision(
        Transaction((0, offset), 1_000, id_, "c1", amount, 900, 0, 0), 1_012, ALL if points is None else points
    )


def rows(server: PostgresServer, table: str) -> list[tuple[object, ...]]:
    with server.connect() as connection:
        asked = sql.SQL('SELECT id, "offset" FROM {} ORDER BY "offset"').format(sql.Identifier("fraud", table))
        return connection.execute(asked).fetchall()


def test_a_decision_that_is_told_again_is_there_once_and_another_with_its_id_is_a_duplicate(
    server: PostgresServer, store: ResultStore
) -> None:
    assert store.put([decision("a", 1), decision("b", 2)], []) == Stored(2, 0, ())
    stored = store.put([decision("a", 1), decision("a", 7, amount=9), decision("c", 8)], [])
    assert (stored.new, stored.known) == (1, 1)
    assert stored.duplicates == (Refusal((0, 7), 1_000, "a", "duplicate"),)
    assert store.put([decision("a", 7, amount=9)], []).duplicates == stored.duplicates, "told again as well"
    assert rows(server, "decisions") == [("a", 1), ("b", 2), ("c", 8)]
    assert rows(server, "refusals") == [("a", 7)]


def test_two_decisions_of_one_id_in_one_portion_are_one_and_a_duplicate(
    server: PostgresServer, store: ResultStore
) -> None:
    stored = store.put([decision("a", 1), decision("a", 2)], [])
    assert (stored.new, len(stored.duplicates)) == (1, 1)
    assert len(rows(server, "decisions")) == len(rows(server, "refusals")) == 1


def test_the_presenter_answers_what_is_stored_and_says_when_the_store_is_away(
    server: PostgresServer, store: ResultStore
) -> None:
    store.put(
        [decision("whole", 1), decision("part", 2, points={"count": 60})], [Refusal((0, 3), 1_000, "bad", "ahead")]
    )
    asked = Locked(ResultStore(server.url, "presenter"))
    status, whole = answer("/decisions/whole", asked)
    assert (status, whole["outcome"], whole["partial"], whole["missing"]) == (200, "review", False, [])
    assert whole["points"] == ALL
    assert whole["stored_ms"] >= whole["decided_ms"]
    _, part = answer("/decisions/part", asked)
    assert (part["outcome"], part["partial"], part["missing"]) == ("review", True, ["average", "proximity"])
    assert answer("/decisions/bad", asked) == (200, {"id": "bad", "outcome": "refused", "reason": "ahead"})
    assert answer("/decisions/nobody", asked)[0] == 404
    server.kill()
    try:
        assert answer("/decisions/whole", asked)[0] == 503
        with pytest.raises(StoreDownError):
            store.put([decision("held", 9)], [])
    finally:
        server.restart()
    assert answer("/decisions/whole", asked) == (200, whole), "by a new session"
    assert store.put([decision("held", 9)], []).new == 1
    assert store.cards() == {"c1", "c2"}
