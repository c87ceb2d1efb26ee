"""The transform of system usage: which records are no transactions, and that the library takes it as it is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from effectively_once.epoch import rows
from effectively_once_jobs.system_usage import pipeline
from effectively_once_jobs.system_usage.transform import transactions

pytestmark = pytest.mark.spark
KAFKA = "root long, topic string, partition int, offset long, value binary"


def record(**changes: Any) -> bytes:
    """Encode a transaction with changes; a field set to `...` is left out."""
    whole = {"id": "i", "user": "u", "event_time_ms": 1_750_000_000_000, "payload": "p", "crc": 7, **changes}
    return json.dumps({name: value for name, value in whole.items() if value is not ...}).encode()


CASES: list[tuple[bytes | None, str | None]] = [
    (record(), None),
    (record(payload=..., crc=...), None),
    (record(id=17), None),
    (None, "not_json"),
    (b"hello", "not_json"),
    (record()[:-3], "not_json"),
    (record() + record(), "not_json"),
    (b"[]", "not_json"),
    (record(id=...), "missing_id"),
    (record(id=""), "missing_id"),
    (record(user=None), "missing_user"),
    (record(event_time_ms="yesterday"), "bad_time"),
    (record(event_time_ms=-1), "bad_time"),
]


def test_what_is_no_transaction_gets_its_reason_and_other_columns_stay(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(n, "t", 0, n, value) for n, (value, _) in enumerate(CASES)], KAFKA)
    found = sorted(transactions(frame).collect(), key=lambda row: row.root)
    assert [row.reason for row in found] == [reason for _, reason in CASES]
    assert [(row.root, row.topic, row.offset) for row in found] == [(n, "t", n) for n in range(len(CASES))]
    assert (found[0].id, found[0].user, found[0].event_time_ms, found[0].system) == (
        "i",
        "u",
        1_750_000_000_000,
        "payments",
    )


def test_the_library_takes_the_transform(spark: SparkSession) -> None:
    rows.check(pipeline, spark)
