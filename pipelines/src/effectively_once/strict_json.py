"""What a transform needs so that broken JSON is refused and not half understood. Columns of Spark."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as f

_OPTIONS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt", "allowSingleQuotes": "false"}
_MORE_BEHIND = r"\}\s*\S"
"""A brace before the end: a nested object, a brace in a text, or something behind the record."""
_HIGH, _LOW = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_LONE_SURROGATE = rf"(?<!\\)(?:\\\\)*(?:{_HIGH}(?!{_LOW})|(?<!{_HIGH}){_LOW})"


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
    return ~f.is_valid_utf8(text) | text.rlike(_LONE_SURROGATE) | ~alone


def whole_number(name: str) -> Column:
    """Return a column of text as a number where it is a whole number from 0 of at most 15 digits, else null.

    For times in milliseconds: read as text, a field of another type is told apart from a number.
    """
    text = f.col(name)
    return f.when(text.rlike(r"^[0-9]{1,15}$"), text.cast("long"))
