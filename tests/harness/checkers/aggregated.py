"""What aggregates of rows come to, in fractions: written down a second time, with no code of the pipeline.

Rows are as JSON has them: decimals, dates, times and bytes are texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, localcontext
from fractions import Fraction
from math import copysign
from typing import Any

Row = Mapping[str, Any]
WHOLE = "int64"
"""Type of a column of whole numbers, be they of 32 bits or 64; runs recorded before there were others name none."""
IMPOSSIBLE = frozenset({"sum_too_large", "too_many_distinct", "bad_result"})
"""Reasons of dead letters that are no records, but results of windows that no sink takes."""
_DECIMAL = re.compile(r"decimal128\((\d+), (\d+)\)")
_1970 = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Value:
    """What a value of windows is.

    Attributes:
        how: sum, average, min, max, first, last, distinct or collect.
        column: of what; None for the number of rows.
        type: Arrow's name of the column's type.
        most: of what is counted or collected one by one.
    """

    how: str
    column: str | None = None
    type: str = WHOLE
    most: int = 0

    @property
    def shown(self) -> str:
        """Kind of JSON that the result is: integer, number, boolean, hex or text."""
        kinds = {WHOLE: "integer", "double": "number", "bool": "boolean", "binary": "hex"}
        if self.column is None or self.how == "distinct":
            return "integer"
        if self.how == "average":
            return "text" if _DECIMAL.fullmatch(self.type) else "number"
        return "text" if self.how == "collect" else kinds.get(self.type, "text")

    @property
    def reason(self) -> str:
        """Of the dead letter where it comes to nothing."""
        return "too_many_distinct" if self.how == "distinct" else "sum_too_large"


def result(value: Value, rows: Sequence[Row]) -> Any:
    """Return what the rows of a group come to; None where no sink takes it.

    Args:
        value: what is asked.
        rows: at least one, in the order of their event time, topic, partition and offset.
    """
    if value.column is None:
        return len(rows)
    return _OF[value.how](value, [row[value.column] for row in rows])


def key_text(parts: Sequence[Any], types: Sequence[str]) -> str:
    """Return what the shard of a key is the hash of."""
    texts = [_key_part(part, type_) for part, type_ in zip(parts, types, strict=True)]
    if len(texts) == 1:
        return texts[0]
    return "|".join(text.replace("~", "~0").replace("|", "~1") for text in texts)


def _key_part(part: Any, type_: str) -> str:
    if type_.startswith("date32"):
        return str((date.fromisoformat(part) - date(1970, 1, 1)).days)
    if type_.startswith("timestamp"):
        return str((datetime.fromisoformat(part) - _1970) // timedelta(microseconds=1))
    return str(part).lower() if isinstance(part, bool) else str(part)


def _number(value: Any) -> Fraction:
    return Fraction(value)


def _digits(whole: int, scale: int) -> str:
    """Write so many of the `scale`th digit behind the point."""
    with localcontext(prec=100):
        return f"{Decimal(whole).scaleb(-scale):f}"


def _sum(value: Value, values: list[Any]) -> Any:
    total = sum(map(_number, values), Fraction())
    if (found := _DECIMAL.fullmatch(value.type)) is not None:
        precision, scale = int(found[1]), int(found[2])
        whole = int(total * 10**scale)
        return _digits(whole, scale) if abs(whole) < 10 ** min(38, precision + 10) else None
    if value.type == "double":
        return _double(total)
    return int(total) if -(1 << 63) <= total < 1 << 63 else None


def _average(value: Value, values: list[Any]) -> Any:
    mean = sum(map(_number, values), Fraction()) / len(values)
    found = _DECIMAL.fullmatch(value.type)
    if found is None:
        return _double(mean)
    scale = int(found[2]) + min(4, 38 - int(found[1]))
    # Halves go away from zero.
    whole = int(abs(mean) * 10**scale + Fraction(1, 2))
    return _digits(whole if mean >= 0 else -whole, scale)


def _double(value: Fraction) -> float | None:
    try:
        return float(value)
    except OverflowError:
        return None


def _order(value: Any, type_: str) -> Any:
    if type_ == "double":
        return value, copysign(1, value)
    if _DECIMAL.fullmatch(type_):
        return _number(value)
    if type_.startswith("timestamp"):
        return datetime.fromisoformat(value)
    # Dates and bytes as JSON has them are in the order of their texts.
    return value.encode() if isinstance(value, str) else value


def _distinct(value: Value, values: list[Any]) -> int | None:
    number = len(set(values))
    return number if number <= value.most else None


_OF: dict[str, Callable[[Value, list[Any]], Any]] = {
    "sum": _sum,
    "average": _average,
    "min": lambda value, values: min(values, key=lambda one: _order(one, value.type)),
    "max": lambda value, values: max(values, key=lambda one: _order(one, value.type)),
    "first": lambda _, values: values[0],
    "last": lambda _, values: values[-1],
    "distinct": _distinct,
    "collect": lambda value, values: values[: value.most],
}
HOWS = frozenset(_OF)
"""What can be recomputed here."""
