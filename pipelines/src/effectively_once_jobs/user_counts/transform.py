"""The pure part of user_counts: what a record means, and which records cannot be counted.

A record is JSON: `{"id": text, "user": text, "event_time_ms": ms since 1970, "payload": text, "crc": integer}`.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from effectively_once import ambiguous_json, whole_number

# Everything as text: a field of the wrong type is then told apart from a record that is no JSON at all.
_FIELDS = "id string, user string, event_time_ms string, payload string, crc long, _corrupt string"
_OPTIONS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt", "allowSingleQuotes": "false"}


def events(frame: DataFrame) -> DataFrame:
    """Parse Kafka rows; what cannot be counted gets the reason why.

    Returns:
        topic, partition, offset, value, id, user, event_time_ms, payload, crc, reason (null: to be counted).

    """
    parsed = frame.select(
        "topic",
        "partition",
        "offset",
        "value",
        f.from_json(f.col("value").cast("string"), _FIELDS, _OPTIONS).alias("r"),
    )
    typed = parsed.select(
        "topic",
        "partition",
        "offset",
        "value",
        "r.id",
        "r.user",
        whole_number("r.event_time_ms").alias("event_time_ms"),
        "r.payload",
        "r.crc",
        (f.col("r").isNull() | f.col("r._corrupt").isNotNull() | ambiguous_json("value")).alias("broken"),
    )
    reason = (
        f.when(f.col("broken"), "not_json")
        .when(f.coalesce(f.col("id"), f.lit("")) == "", "missing_id")
        .when(f.coalesce(f.col("user"), f.lit("")) == "", "missing_user")
    )
    return typed.withColumn("reason", reason).drop("broken")
