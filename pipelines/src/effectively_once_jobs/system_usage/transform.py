"""The one transform of all four: what a record means, and which records are no transaction.

A record is JSON: `{"id": text, "user": text, "event_time_ms": ms since 1970}`; other fields are left alone.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from effectively_once import ambiguous_json, whole_number

COLUMNS = pa.schema([("user", pa.string()), ("system", pa.string())])
SYSTEM_NAME = "payments"
# Everything as text: a field of the wrong type is then told apart from a record that is no JSON at all.
_FIELDS = "id string, user string, event_time_ms string, _corrupt string"
_OPTIONS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt", "allowSingleQuotes": "false"}


def transactions(frame: DataFrame) -> DataFrame:
    """Parse Kafka rows; what is no transaction gets the reason why.

    Returns:
        All columns of `frame`, and id, user, system, event_time_ms, reason (null: to be looked up and counted).

    """
    parsed = frame.select("*", f.from_json(f.col("value").cast("string"), _FIELDS, _OPTIONS).alias("r"))
    typed = parsed.select(
        *frame.columns,
        "r.id",
        "r.user",
        f.lit(SYSTEM_NAME).alias("system"),
        whole_number("r.event_time_ms").alias("event_time_ms"),
        (f.col("r").isNull() | f.col("r._corrupt").isNotNull() | ambiguous_json("value")).alias("broken"),
    )
    reason = (
        f.when(f.col("broken"), "not_json")
        .when(f.coalesce(f.col("id"), f.lit("")) == "", "missing_id")
        .when(f.coalesce(f.col("user"), f.lit("")) == "", "missing_user")
        .when(f.col("event_time_ms").isNull(), "bad_time")
    )
    return typed.withColumn("reason", reason).drop("broken")
