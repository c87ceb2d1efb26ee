"""A job of `fuzzed_job` or `drawn_job` under test: what is sent to it, and everything it published, as rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from confluent_kafka import Producer

from effectively_once import Pipeline
from effectively_once.pipeline.sinks import MESSAGE_BYTES, ToKafka
from infra.embedded.process import Child, wait_for
from tests.fuzz.records import Record
from tests.fuzz.rows import Row
from tests.fuzz.shown import of_letters, of_messages, plain
from tests.spark.orders import Orders
from tests.spark.pipeline import ADMIN_S, PARTITIONS

PROCESSED_S = 2_400.0
AT_ONCE = 5_000
"""Records in the producer's queue: some of them are large."""
Coordinate = tuple[int, int]
"""Partition and offset."""


class Fuzzed(Orders):
    """A pipeline of its own; it is started, and its table read, as that of orders is."""

    def __init__(self, *given: Any) -> None:
        """See Pipeline."""
        super().__init__(*given)
        self.sent: dict[Coordinate, Record] = {}

    @cached_property
    def declared(self) -> Pipeline:
        """The declaration that its settings name."""
        return self.job.pipeline

    def send_all(self, records: Sequence[Record]) -> None:
        """Send records with keys and headers, in turn to every partition; keep where each came to lie."""
        producer = Producer(
            {
                "bootstrap.servers": self.endpoints.kafka_bootstrap,
                "linger.ms": 5,
                "acks": "all",
                "message.max.bytes": MESSAGE_BYTES,
            }
        )
        for number, record in enumerate(records):
            producer.produce(
                self.topic,
                record.value,
                record.key,
                partition=number % PARTITIONS,
                headers=list(record.headers),
                on_delivery=lambda error, message, record=record: self._kept(error, message, record),
            )
            if number % AT_ONCE == AT_ONCE - 1:
                assert producer.flush(ADMIN_S) == 0
        assert producer.flush(ADMIN_S) == 0

    def _kept(self, error: object, message: Any, record: Record) -> None:
        assert error is None, error
        self.sent[message.partition(), message.offset()] = record

    def wait_all(self, driver: Child) -> None:
        """Wait until every record sent lies in a published epoch."""
        wait_for(f"{self.name}: all records", PROCESSED_S, lambda: self.published_rows() >= len(self.sent), driver)

    def letters(self) -> list[dict[str, Any]]:
        """Every dead letter."""
        return of_letters([(key, value or b"") for _, key, value in self.raw(f"{self.name}.dead_letter")])

    def read_rows(self, sink: str) -> list[Row]:
        """Every row of a topic."""
        to, _ = self.declared.sinks[sink]
        assert isinstance(to, ToKafka)
        content = [(key, value or b"") for _, key, value in self.raw(f"{self.name}.{sink}")]
        schema = self.declared.schema_of(sink)
        return [{name: row[name] for name in schema.names} for row in of_messages(to, schema, content)]

    def kept(self, sink: str) -> list[Row]:
        """Every row of a table; elsewhere than in UTC the last times of the year 9999 are of the next one."""
        with self.database.connect() as session:
            session.execute("SET TIME ZONE 'UTC'")
            found = session.execute(f'SELECT * FROM "{self.name}"."{sink}"')  # noqa: S608 - our own names
            columns = [column.name for column in found.description or ()]
            return [dict(zip(columns, map(plain, row), strict=True)) for row in found]

    def archived(self, sink: str) -> list[Row]:
        """Every row that manifests name."""
        last = self.head().last_recorded
        return [{name: plain(value) for name, value in row.items()} for row in self.files(sink, last)]


def ordered(rows: Sequence[Row]) -> list[str]:
    """Rows in an order of their own, so that two lists of them are equal where the rows are."""
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in rows)
