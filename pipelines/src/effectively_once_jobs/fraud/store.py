"""The result store: decisions by transaction id, refused records by their place, cards that there are."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from effectively_once.errors import UnreachableError
from effectively_once.sinks.database import PASSWORD, USER, DatabaseAddress
from effectively_once_jobs.fraud.decision import Decision
from effectively_once_jobs.fraud.transaction import Place, Refusal

SCHEMA = """
DO $$ BEGIN IF to_regnamespace('fraud') IS NULL THEN CREATE SCHEMA fraud; END IF; END $$;
CREATE TABLE IF NOT EXISTS fraud.cards (card text PRIMARY KEY);
CREATE TABLE IF NOT EXISTS fraud.decisions (
    id text PRIMARY KEY, card text NOT NULL, partition int NOT NULL, "offset" bigint NOT NULL,
    arrived_ms bigint NOT NULL, decided_ms bigint NOT NULL, outcome text NOT NULL, points jsonb NOT NULL,
    missing jsonb NOT NULL, partial boolean GENERATED ALWAYS AS (missing <> '[]'::jsonb) STORED,
    stored_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE IF NOT EXISTS fraud.refusals (
    partition int NOT NULL, "offset" bigint NOT NULL, id text, reason text NOT NULL, arrived_ms bigint NOT NULL,
    PRIMARY KEY (partition, "offset")
);
CREATE INDEX IF NOT EXISTS refusals_by_id ON fraud.refusals (id);
"""
"""Run at deployment, again and again. IF NOT EXISTS would ask for the right to make schemas even where it exists."""
CONNECT_S, STATEMENT_MS = 2, 5_000
# A statement is one round trip, and one parameter is the same statement however many rows it has.
_DECISIONS = """
INSERT INTO fraud.decisions (id, card, partition, "offset", arrived_ms, decided_ms, outcome, points, missing)
SELECT * FROM jsonb_to_recordset(%s) AS r(id text, card text, partition int, "offset" bigint, arrived_ms bigint,
    decided_ms bigint, outcome text, points jsonb, missing jsonb)
ON CONFLICT (id) DO NOTHING RETURNING id, partition, "offset"
"""
_REFUSALS = """
INSERT INTO fraud.refusals (partition, "offset", id, reason, arrived_ms)
SELECT * FROM jsonb_to_recordset(%s)
    AS r(partition int, "offset" bigint, id text, reason text, arrived_ms bigint)
ON CONFLICT (partition, "offset") DO NOTHING
"""
_PLACES = 'SELECT id, partition, "offset" FROM fraud.decisions WHERE id = ANY(%s)'
_DECISION = """
SELECT id, outcome, partial, missing, points, arrived_ms, decided_ms,
    (extract(epoch FROM stored_at) * 1000)::bigint AS stored_ms FROM fraud.decisions WHERE id = %s
"""
_REFUSED = 'SELECT id, reason FROM fraud.refusals WHERE id = %s ORDER BY arrived_ms, partition, "offset" LIMIT 1'


class StoreDownError(Exception):
    """The result store gave no answer; what was asked took effect or not, and may be asked again."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of decisions that were given to the store."""

    new: int
    known: int
    duplicates: tuple[Refusal, ...]


class ResultStore:
    """One session, opened when it is needed and forgotten when it breaks.

    Args:
        database: postgresql://host:port/database; user and password are in the environment.
        name: how the server's own tables show the session.

    """

    def __init__(self, database: str, name: str) -> None:
        self._address, self._name = DatabaseAddress(database), name
        self._session: psycopg.Connection[Any] | None = None

    def put(self, decisions: Sequence[Decision], refusals: Sequence[Refusal]) -> Stored:
        """Store decisions, each once by its id, and refused records, each once by its place.

        A decision whose id is known with the same place was stored before; with another place it is a duplicate, and
        is stored as refused. So a repeat of all of it changes nothing.

        Raises:
            StoreDownError: it is not known how much of it was stored.

        """
        new = self._places(_DECISIONS, Jsonb([_decision(one) for one in decisions])) if decisions else {}
        rest = [one for one in decisions if new.get(one.transaction.id) != one.transaction.place]
        places = self._places(_PLACES, [one.transaction.id for one in rest]) if rest else {}
        duplicates = tuple(
            Refusal(one.transaction.place, one.transaction.arrived_ms, one.transaction.id, "duplicate")
            for one in rest
            if places.get(one.transaction.id) != one.transaction.place
        )
        if refused := [_refusal(one) for one in (*refusals, *duplicates)]:
            self._ask(_REFUSALS, [Jsonb(refused)])
        return Stored(len(new), len(rest) - len(duplicates), duplicates)

    def cards(self) -> frozenset[str]:
        """Every card that there is. Raises StoreDownError."""
        return frozenset(row["card"] for row in self._ask("SELECT card FROM fraud.cards", []))

    def find(self, id_: str) -> dict[str, Any] | None:
        """The decision about a transaction, or `{"id", "reason"}` where it was refused. Raises StoreDownError."""
        return next(iter(self._ask(_DECISION, [id_]) or self._ask(_REFUSED, [id_])), None)

    def close(self) -> None:
        """End the session."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _places(self, statement: str, asked: Any) -> dict[str, Place]:
        return {row["id"]: (row["partition"], row["offset"]) for row in self._ask(statement, [asked])}

    def _ask(self, statement: str, parameters: Iterable[Any]) -> list[dict[str, Any]]:
        try:
            if self._session is None:
                self._session = self._open()
            cursor = self._session.execute(statement, list(parameters), prepare=True)
            return cursor.fetchall() if cursor.description else []
        except psycopg.OperationalError as error:
            self.close()
            raise StoreDownError((str(error).strip().splitlines() or ["no answer"])[0][:300]) from error

    def _open(self) -> psycopg.Connection[Any]:
        keys = {name: os.environ.get(name, "") for name in (USER, PASSWORD)}
        if not all(keys.values()):
            raise UnreachableError(
                "credentials of the result store are missing",
                f"environment: {USER}, {PASSWORD}",
                "Set them for executors and presenter.",
            )
        return psycopg.connect(
            **self._address.parts,
            user=keys[USER],
            password=keys[PASSWORD],
            autocommit=True,
            row_factory=dict_row,
            application_name=self._name[:63],
            connect_timeout=CONNECT_S,
            tcp_user_timeout=STATEMENT_MS,
            options=f"-c statement_timeout={STATEMENT_MS} -c synchronous_commit=on",
        )


def _decision(one: Decision) -> dict[str, Any]:
    about = one.transaction
    return {
        "id": about.id,
        "card": about.card,
        "partition": about.place[0],
        "offset": about.place[1],
        "arrived_ms": about.arrived_ms,
        "decided_ms": one.decided_ms,
        "outcome": one.outcome,
        "points": dict(one.points),
        "missing": one.missing,
    }


def _refusal(one: Refusal) -> dict[str, Any]:
    return {
        "partition": one.place[0],
        "offset": one.place[1],
        "id": one.id,
        "reason": one.reason,
        "arrived_ms": one.arrived_ms,
    }
