"""The pure part of user_counts: what a record means, and which records cannot be counted.

A record is JSON: `{"id": text, "user": text, "event_time_ms": milliseconds since 1970, "payload": text, "crc": integer}`.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from effectively_once.ledger.records import Declaration
from effectively_once.settings import PipelineSettings

# Everything as text: a field of the wrong type is then told apart from a record that is no JSON at all.
_FIELDS = "id string, user string, event_time_ms string, payload string, crc long, _corrupt string"
_OPTIONS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt"}


def split(frame: DataFrame, declaration: Declaration, settings: PipelineSettings) -> DataFrame:
    """Parse Kafka rows and give each that is not to be counted its reason, before any state (R6).

    Returns:
        topic, partition, offset, id, user, event_time_ms, payload, crc, reason (null: in time), value (null where reason is).
    """
    parsed = frame.select(
        "topic", "partition", "offset", "value", f.from_json(f.col("value").cast("string"), _FIELDS, _OPTIONS).alias("r"),
    )  # fmt: skip
    typed = parsed.select(
        "topic", "partition", "offset", "value", "r.id", "r.user", event_time("r.event_time_ms").alias("event_time_ms"),
        "r.payload", "r.crc", (f.col("r").isNull() | f.col("r._corrupt").isNotNull()).alias("broken"),
    )  # fmt: skip
    reason = (
        f.when(f.col("broken"), "not_json")
        .when(f.coalesce(f.col("id"), f.lit("")) == "", "missing_id")
        .when(f.coalesce(f.col("user"), f.lit("")) == "", "missing_user")
        .when(f.col("event_time_ms").isNull(), "bad_time")
        .when(late(f.col("event_time_ms"), declaration.watermark_ms, settings), "late")
    )
    judged = typed.withColumn("reason", reason).drop("broken")
    return judged.withColumn("value", f.when(f.col("reason").isNotNull(), f.col("value")))


def event_time(name: str) -> Column:
    """Milliseconds since 1970 when the field is a whole number of at most 15 digits, else null."""
    text = f.col(name)
    return f.when(text.rlike(r"^[0-9]{1,15}$"), text.cast("long"))


def late(time_ms: Column, watermark_ms: int | None, settings: PipelineSettings) -> Column:
    """Window end + allowed lateness <= watermark. The same rule, in plain Python, is `Windows.closed`."""
    if watermark_ms is None:
        return f.lit(False)
    start = time_ms - time_ms % settings.window_ms
    return start + settings.window_ms + settings.lateness_ms <= f.lit(watermark_ms)
