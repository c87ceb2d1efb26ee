"""What a transform needs so that broken JSON is refused and not half understood. Columns of Spark."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, DecimalType, StructType

from effectively_once.errors import SettingsError

_KINDS = {
    "string": "STRING",
    "boolean": "BOOLEAN",
    "bigint": "BIGINT",
    "int": "BIGINT",
    "double": r"(BIGINT|DOUBLE|DECIMAL\(\d+,\d+\))",
    "date": "STRING",
    "timestamp": "STRING",
}
"""Spark's types, and what a JSON value of a field has to be for them. Decimals are numbers too (`_kind_of`)."""
_END = r"(?![\s\S])"
"""The end of a text; `$` is before a last line's end too."""
_DAY = r"^(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}"
FORMS = {
    "date": rf"{_DAY}{_END}",
    "timestamp": rf"{_DAY}T[0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(\.[0-9]{{1,6}}0*)?"
    rf"(Z|[+-](0[0-9]|1[0-7]):[0-5][0-9]|[+-]18:00){_END}",
}
"""Types that JSON has as texts, and their form (ISO 8601): whole days, and moments to the microsecond with a zone.

Spark takes more (spaces around it, parts left out, digits that it cuts off), and what is no day or no hour for none.
"""
_OPTIONS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt", "allowSingleQuotes": "false"}
_MORE_BEHIND = r"\}\s*\S"
"""A brace before the end: a nested object, a brace in a text, or something behind the record."""
_HIGH, _LOW = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_LONE_SURROGATE = rf"(?<!\\)(?:\\\\)*(?:{_HIGH}(?!{_LOW})|(?<!{_HIGH}){_LOW})"


def json_records(frame: DataFrame, fields: str) -> DataFrame:
    """Read each Kafka value as one JSON object, strictly: what another reader could take otherwise is refused.

    Args:
        frame: as a transform is given it.
        fields: names and types as Spark writes them: string, boolean, int, long, double, decimal(p, s), date or
            timestamp. One that is not there, or null, is null. A text is not taken for a number, nor a number or a
            truth value for a text. Nothing is rounded: a decimal is a number without an exponent, of at most 38 digits,
            that has its type's room. A date is a text `2026-11-27`. A timestamp is one with seconds and a zone,
            `2026-11-27T15:04:05.678Z` or `...+01:00`, and at most six digits of a second that are not 0.

    Returns:
        topic, partition, offset, value, timestamp, the fields, and reason: null, or
        `malformed`: not one JSON object (RFC 8259, in Unicode, no key twice in an object within it);
        `duplicate_key`: a key is there twice;
        `bad_<field>` (`bad_time` for event_time_ms, and for a timestamp event_time): of another type than declared, or
        beyond it.

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
        kind, json = field.dataType.simpleString(), _kind_of(field.dataType)
        if json is None:
            raise SettingsError(
                f"field {field.name} is {kind}; possible are {', '.join(_KINDS)} and decimal(p, s)",
                "json_records",
                "Read it as a string and convert it.",
            )
        path = f"$.{field.name}"
        found = f.schema_of_variant(f.try_variant_get(whole, path, "variant"))
        value = f.try_variant_get(whole, path, "string" if kind in FORMS else kind)
        if kind in FORMS:
            value = f.when(value.rlike(FORMS[kind]), value.try_cast(kind))
        value = f.when(found.rlike(f"^{json}$"), value)
        # A null of JSON is VOID; what is not there has no type at all.
        wrong = value.isNull() & (found != "VOID")
        reason = f.coalesce(reason, f.when(wrong, _reason_of(field.name, kind)))
        parsed.append(value.alias(field.name))
    return frame.select("topic", "partition", "offset", "value", "timestamp", *parsed, reason.alias("reason"))


def _kind_of(kind: DataType) -> str | None:
    """What a JSON value of a type has to be: a pattern of Spark's names for it; None where the type is none of ours."""
    if isinstance(kind, DecimalType):
        # Of a number Spark tells the least scale that holds it, so that none here is rounded. Too large a one is null.
        scales = "|".join(map(str, range(kind.scale + 1)))
        return rf"(BIGINT|DECIMAL\(\d+,({scales})\))"
    return _KINDS.get(kind.simpleString())


def _reason_of(name: str, kind: str) -> str:
    return "bad_time" if name == "event_time_ms" or (name, kind) == ("event_time", "timestamp") else f"bad_{name}"


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
