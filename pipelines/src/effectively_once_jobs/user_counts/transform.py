"""The pure part of user_counts: what a record means, and which records cannot be counted.

A record is JSON: `{"id": text, "user": text, "event_time_ms": ms since 1970, "payload": text, "crc": integer}`.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

# Everything as text: a field of the wrong type is then told apart from a record that is no JSON at all.
_FIELDS = "id string, user string, event_time_ms string, payload string, crc long, _corrupt string"
_OPTIONS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt", "allowSingleQuotes": "false"}

_MORE_BEHIND = r"\}\s*\S"
"""A brace before the end: a nested object, a brace in a text, or something behind the record."""
_HIGH, _LOW = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_LONE_SURROGATE = rf"(?<!\\)(?:\\\\)*(?:{_HIGH}(?!{_LOW})|(?<!{_HIGH}){_LOW})"


def events(frame: DataFrame) -> DataFrame:
    """Parse Kafka rows; what cannot be counted gets the reason why.

    Returns:
        topic, partition, offset, value, id, user, event_time_ms, payload, crc, reason (null: to be counted).

    """
    parsed = frame.select(
        "topic", "partition", "offset", "value",
        f.from_json(f.col("value").cast("string"), _FIELDS, _OPTIONS).alias("r"),
    )  # fmt: skip
    typed = parsed.select(
        "topic", "partition", "offset", "value", "r.id", "r.user", event_time("r.event_time_ms").alias("event_time_ms"),
        "r.payload", "r.crc",
        (f.col("r").isNull() | f.col("r._corrupt").isNotNull() | ambiguous("value")).alias("broken"),
    )  # fmt: skip
    reason = (
        f.when(f.col("broken"), "not_json")
        .when(f.coalesce(f.col("id"), f.lit("")) == "", "missing_id")
        .when(f.coalesce(f.col("user"), f.lit("")) == "", "missing_user")
    )
    return typed.withColumn("reason", reason).drop("broken")


def ambiguous(name: str) -> Column:
    """Find what Spark's parser reads as a record although it is none: it would lose or change a part without a word.

    It stops at the end of the first object, and puts one replacement character for whatever is not Unicode: two ids
    could become one.
    """
    text = f.col(name).cast("string")
    # Whatever stands behind a record closes at most one of these two brackets.
    in_array = f.size(f.from_json(f.concat(f.lit("["), text, f.lit("]")), "array<string>")) == 1
    in_object = f.from_json(f.concat(f.lit('{"r":'), text, f.lit("}")), "r string", _OPTIONS).getField("r").isNotNull()
    alone = f.when(text.rlike(_MORE_BEHIND), f.coalesce(in_array & in_object, f.lit(False))).otherwise(f.lit(True))
    return ~f.is_valid_utf8(text) | text.rlike(_LONE_SURROGATE) | ~alone


def event_time(name: str) -> Column:
    """Milliseconds since 1970 when the field is a whole number of at most 15 digits, else null."""
    text = f.col(name)
    return f.when(text.rlike(r"^[0-9]{1,15}$"), text.cast("long"))
