"""The job of `orders_job` under test: its database, its drivers, and everything it published, compared."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from effectively_once.ledger.objects import body_of, run
from effectively_once.sinks.database import PASSWORD, USER
from effectively_once.sinks.manifest import ManifestSink
from effectively_once.state import deltas
from infra.embedded.postgres import PostgresServer
from tests.harness.checkers.reference import Reference, replay
from tests.spark.attacked import Attacked
from tests.spark.outputs import assert_letters, published_epochs
from tests.spark.pipeline import SHARDS, Commanded

STEP, TABLES, KAFKA_SINKS = "priced", ("orders", "per_user"), ("accepted", "dead_letter")
CHECKSUM_BYTES = 16
WINDOW_MS, LATENESS_MS = 60_000, 120_000
Price = tuple[str, int]
"""Id and price of a row."""


class Orders(Commanded):
    """An orders pipeline of its own, with tables in a database."""

    database: PostgresServer

    @property
    def own_env(self) -> Mapping[str, str]:
        return {**super().own_env, USER: self.database.user, PASSWORD: self.database.password}

    def table(self, name: str) -> list[dict[str, Any]]:
        """Every committed row of a table."""
        with self.database.connect() as session:
            found = session.execute(f'SELECT * FROM "{self.name}"."{name}"')  # noqa: S608 - our own names
            columns = [column.name for column in found.description or ()]
            return [dict(zip(columns, row, strict=True)) for row in found]

    def table_marks(self) -> dict[tuple[str, int], int]:
        """(sink, shard) -> epoch of its mark."""
        with self.database.connect() as session:
            query = "SELECT sink, shard, epoch FROM effectively_once.progress WHERE pipeline = %s"
            return {(sink, shard): epoch for sink, shard, epoch in session.execute(query, [self.name])}

    def kafka_marks(self, sink: str) -> dict[int, list[int]]:
        """Shard -> epochs of its marks, in order."""
        found: dict[int, list[int]] = {}
        for shard, _, value in self.raw(f"{self.name}.{sink}.progress"):
            found.setdefault(shard, []).append(json.loads(value or b"{}")["epoch"])
        return found

    def files(self, sink: str, last: int) -> list[dict[str, Any]]:
        """Every row that the manifests of a sink name."""
        return [row for _, _, row in ManifestSink(self.store, self.layout, sink).rows(last)]

    def records_of_the_step(self) -> dict[str, list[int]]:
        """Object name -> prices that the step recorded there."""
        found = {}
        for name in self.store.names(f"{self.name}/recorded/{STEP}/"):
            body = run(body_of(name), self.store)
            assert body is not None, name
            found[name] = deltas.decode(body[:-CHECKSUM_BYTES])["price"].to_pylist()
        return found

    def accepted(self) -> list[dict[str, Any]]:
        """Messages of the topic."""
        return [json.loads(value or b"null") for _, _, value in self.raw(f"{self.name}.accepted")]


@dataclass
class AttackedOrders(Attacked):
    """One orders pipeline for all points."""

    pipeline: Orders

    def exact(self) -> None:
        """Everything sent is published, exactly once."""
        self.pipeline.wait_processed(self.driver)
        assert_exact(self.pipeline, running=True)


def assert_exact(orders: Orders, *, running: bool = False, added_at: int | None = None) -> Reference:
    """Assert that every output is exactly what it must be, and that a row's price is the same in all of them.

    Args:
        orders: the pipeline.
        running: whether a driver runs, whose last epoch is declared still.
        added_at: the epoch from which on it had a table `added` as well.

    """
    epochs = published_epochs(orders, running=running)
    last = len(epochs) - 1
    expected = replay(orders.sends, epochs, WINDOW_MS, LATENESS_MS)
    wanted = Counter(
        (id_, orders.sends[at].coordinate, expected.epochs_of[at]) for id_, at in expected.accepted.items()
    )
    messages = orders.accepted()
    assert Counter((row["id"], tuple(row["source"]), row["epoch"]) for row in messages) == wanted
    prices: dict[str, int] = {row["id"]: row["price"] for row in messages}
    assert len(set(prices.values())) == len(prices), "a draw was used twice"
    for rows in (orders.table("orders"), orders.files("archive", last)):
        found = Counter((row["id"], (row["topic"], row["partition"], row["offset"])) for row in rows)
        assert found == Counter((id_, source) for id_, source, _ in wanted.elements())
        assert {row["id"]: row["price"] for row in rows} == prices, "a price differs between the sinks"
    assert_letters(orders, expected)
    assert_windows(orders, expected, prices, last)
    assert_marks(orders, last, added_at)
    return expected


def assert_windows(orders: Orders, expected: Reference, prices: Mapping[str, int], last: int) -> None:
    """Assert that aggregates by user and over all are those of the accepted rows of the windows that have closed."""
    groups: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for id_, at in expected.accepted.items():
        send = orders.sends[at]
        assert send.user is not None and send.event_time_ms is not None and send.crc is not None
        start = send.event_time_ms - send.event_time_ms % WINDOW_MS
        if (send.user, start) in expected.user_counts:
            groups.setdefault((send.user, start), []).append((send.crc, prices[id_]))
    assert Counter(
        (row["user"], row["window_start_ms"], row["count"], row["crc"], row["price"])
        for row in orders.table("per_user")
    ) == Counter(
        (*key, len(rows), sum(crc for crc, _ in rows), max(price for _, price in rows)) for key, rows in groups.items()
    )
    totals: dict[int, list[tuple[int, int]]] = {}
    for (_, start), rows in groups.items():
        totals.setdefault(start, []).extend(rows)
    found = orders.files("totals", last)
    assert Counter(
        tuple(row[name] for name in ("window_start_ms", "count", "crc", "price")) for row in found
    ) == Counter(
        (start, len(rows), sum(crc for crc, _ in rows), max(price for _, price in rows))
        for start, rows in totals.items()
    )


def assert_marks(orders: Orders, last: int, added_at: int | None = None) -> None:
    """Assert that every shard of every sink was at each epoch that has it, once, and stands at the last of them.

    One that begins, or comes back, was at the epoch before as well.
    """

    def tables_at(epoch: int) -> tuple[str, ...]:
        return TABLES if added_at is None or epoch < added_at else (*TABLES, "added")

    numbers = [record.shards for record in orders.epochs()]
    # The last one may be declared still.
    numbers += [numbers[-1] if numbers else SHARDS] * (last + 1 - len(numbers))
    marks = {
        shard: [
            epoch
            for epoch in range(last + 1)
            if shard < numbers[epoch] or (epoch < last and shard < numbers[epoch + 1])
        ]
        for shard in range(max(numbers))
    }
    assert orders.table_marks() == {(sink, shard): at[-1] for sink in tables_at(last) for shard, at in marks.items()}
    for sink in KAFKA_SINKS:
        assert orders.kafka_marks(sink) == marks
    for record in orders.epochs():
        assert {sink: len(shards) for sink, shards in record.sinks.items()} == {
            **dict.fromkeys((*KAFKA_SINKS, *tables_at(record.epoch)), record.shards),
            "archive": 1,
            "totals": 1,
        }
