"""What a transform needs so that broken JSON is refused and not half understood. Columns of Spark."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from effectively_once.errors import SettingsError

_KINDS = {
    "string": "STRING",
    "boolean": "BOOLEAN",
    "bigint": "BIGINT",
    "int": "BIGINT",
    "double": r"(BIGINT|DOUBLE|DECIMAL\(\d+,\d+\))",
}
"""Spark's types, and what a JSON value of a field has to be for them."""
_OPTIONS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt", "allowSingleQuotes": "false"}
_MORE_BEHIND = r"\}\s*\S"
"""A brace before the end: a nested object, a brace in a text, or something behind the record."""
_HIGH, _LOW = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_LONE_SURROGATE = rf"(?<!\\)(?:\\\\)*(?:{_HIGH}(?!{_LOW})|(?<!{_HIGH}){_LOW})"


def json_records(frame: DataFrame, fields: str) -> DataFrame:
    """Read each Kafka value as one JSON object, strictly: what another reader could take otherwise is refused.

    Args:
        frame: as a transform is given it.
        fields: names and types as Spark writes them: string, boolean, int, long or double. One that is not there, or
            null, is null. A text is not taken for a number, nor a number or a truth value for a text.

    Returns:
        topic, partition, offset, value, timestamp, the fields, and reason: null, or
        `malformed`: not one JSON object (RFC 8259, in Unicode, no key twice in an object within it);
        `duplicate_key`: a key is there twice;
        `bad_<field>` (`bad_time` for event_time_ms): of another type than declared, or beyond it.

    Raises:
        SettingsError: a field has another type.

    """
    text = f.col("value").cast("string")
    keys, whole = f.json_object_keys(text), f.try_parse_json(text)
    reason = (
        f.when(keys.isNull() | ambiguous_json("value"), "malformed")
        .when(f.size(keys) > f.size(f.array_distinct(keys)), "duplicate_key")
        .when(whole.isNull(), "malformed")
    )
    parsed = []
    for field in StructType.fromDDL(fields):
        kind = field.dataType.simpleString()
        if kind not in _KINDS:
            raise SettingsError(
                f"field {field.name} is {kind}; possible are {', '.join(_KINDS)}",
                "json_records",
                "Read it as a string and convert it.",
            )
        path = f"$.{field.name}"
        found = f.schema_of_variant(f.try_variant_get(whole, path, "variant"))
        value = f.when(found.rlike(f"^{_KINDS[kind]}$"), f.try_variant_get(whole, path, kind))
        # A null of JSON is VOID; what is not there has no type at all.
        wrong = value.isNull() & (found != "VOID")
        reason = f.coalesce(reason, f.when(wrong, "bad_time" if field.name == "event_time_ms" else f"bad_{field.name}"))
        parsed.append(value.alias(field.name))
    return frame.select("topic", "partition", "offset", "value", "timestamp", *parsed, reason.alias("reason"))


def ambiguous_json(name: str) -> Column:
    """Find what Spark's parser reads as one JSON object although it is none: a part would be lost without a word.

    Args:
        name: a column of text or bytes.

    Returns:
        True where the value has to be refused beside what `from_json` itself finds corrupt.

    It stops at the end of the first object, and puts one replacement character for whatever is not Unicode: two ids
    could become one.
    """
    text = f.col(name).cast("string")
    # Whatever stands behind a record closes at most one of these two brackets.
    in_array = f.size(f.from_json(f.concat(f.lit("["), text, f.lit("]")), "array<string>")) == 1
    in_object = f.from_json(f.concat(f.lit('{"r":'), text, f.lit("}")), "r string", _OPTIONS).getField("r").isNotNull()
    alone = f.when(text.rlike(_MORE_BEHIND), f.coalesce(in_array & in_object, f.lit(False))).otherwise(f.lit(True))
    # Looking behind every character took a third of an executor's time; hardly a record has an escape at all.
    surrogate = f.contains(text, f.lit("\\u")) & text.rlike(_LONE_SURROGATE)
    return ~f.is_valid_utf8(text) | surrogate | ~alone


def whole_number(name: str) -> Column:
    """Return a column of text as a number where it is a whole number from 0 of at most 15 digits, else null.

    For times in milliseconds: read as text, a field of another type is told apart from a number.
    """
    text = f.col(name)
    return f.when(text.rlike(r"^[0-9]{1,15}$"), text.cast("long"))
