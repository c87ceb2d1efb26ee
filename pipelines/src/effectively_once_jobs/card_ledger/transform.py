"""The pure part of card_ledger: what a record means, and which records are no transaction.

A record is JSON: `{"id": text, "card": text, "amount_cents": whole number from 1 on, "event_time_ms": ms since 1970}`.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from effectively_once import ambiguous_json, whole_number

# Everything as text: a field of the wrong type is then told apart from a record that is no JSON at all.
_FIELDS = "id string, card string, amount_cents string, event_time_ms string, _corrupt string"
_OPTIONS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt", "allowSingleQuotes": "false"}


def transactions(frame: DataFrame) -> DataFrame:
    """Parse Kafka rows; what cannot be charged gets the reason why.

    Returns:
        topic, partition, offset, value, timestamp, id, card, amount_cents, event_time_ms, reason (null: to be charged).

    """
    parsed = frame.select(
        "topic",
        "partition",
        "offset",
        "value",
        "timestamp",
        f.from_json(f.col("value").cast("string"), _FIELDS, _OPTIONS).alias("r"),
    )
    typed = parsed.select(
        "topic",
        "partition",
        "offset",
        "value",
        "timestamp",
        "r.id",
        "r.card",
        whole_number("r.amount_cents").alias("amount_cents"),
        whole_number("r.event_time_ms").alias("event_time_ms"),
        (f.col("r").isNull() | f.col("r._corrupt").isNotNull() | ambiguous_json("value")).alias("broken"),
    )
    reason = (
        f.when(f.col("broken"), "not_json")
        .when(f.coalesce(f.col("id"), f.lit("")) == "", "missing_id")
        .when(f.coalesce(f.col("card"), f.lit("")) == "", "missing_card")
        .when(f.coalesce(f.col("amount_cents"), f.lit(0)) < 1, "bad_amount")
    )
    return typed.withColumn("reason", reason).drop("broken")
