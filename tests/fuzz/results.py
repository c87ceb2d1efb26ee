"""Aggregates of rows in plain Python: fractions, sets and lists; no Arrow, no lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import orjson
import pyarrow as pa

from effectively_once import (
    Average,
    Collect,
    Count,
    CountDistinct,
    First,
    Last,
    Max,
    Min,
    OwnAggregate,
    Sum,
)
from effectively_once.state.aggregates import Aggregate

Row = dict[str, Any]
_EXACT = Context(prec=4_000)
_1970, _DAY_1970 = datetime(1970, 1, 1, tzinfo=UTC), date(1970, 1, 1).toordinal()


def result(value: Aggregate, rows: Sequence[Row], columns: pa.Schema) -> tuple[Any, str]:
    """Return what an aggregate of rows comes to, None where no sink takes it; and how a dead letter tells it."""
    if isinstance(value, Count):
        return _both(len(rows))
    kinds = [columns.field(name).type for name in value.columns]
    in_order = sorted(rows, key=lambda row: (row["event_time_ms"], row["topic"], row["partition"], row["offset"]))
    if isinstance(value, OwnAggregate):
        kept = value.zero()
        for row in in_order:
            kept = value.add(kept, *(row[name] for name in value.columns))
        return _both(value.finish(kept))
    return _OF[type(value)](value, [row[value.column] for row in in_order], kinds[0])


def plain(value: Any, kind: pa.DataType) -> Any:
    """Return a value as messages show it; dates and times are whole numbers here."""
    if kind == pa.binary():
        return value.hex()
    if pa.types.is_decimal(kind):
        return f"{value:f}"
    if kind == pa.date32():
        return date.fromordinal(value + _DAY_1970).isoformat()
    return (_1970 + timedelta(microseconds=value)).isoformat() if pa.types.is_timestamp(kind) else value


def _both(found: Any, kind: pa.DataType | None = None) -> tuple[Any, str]:
    shown = found if kind is None else plain(found, kind)
    return found, str(shown).lower() if isinstance(shown, bool) else str(shown)


def _sum(_: Any, values: list[Any], kind: pa.DataType) -> tuple[Any, str]:
    whole = sum(map(Fraction, values), Fraction())
    if pa.types.is_floating(kind):
        found = _double(whole)
        exact = _EXACT.divide(Decimal(whole.numerator), Decimal(whole.denominator))
        return _both(found) if found is not None else (None, f"{exact:f}")
    if pa.types.is_decimal(kind):
        exact = _EXACT.scaleb(Decimal(int(whole * 10**kind.scale)), -kind.scale)
        fits = abs(whole * 10**kind.scale) < 10 ** min(38, kind.precision + 10)
        return (exact if fits else None), f"{exact:f}"
    return (int(whole) if -(2**63) <= whole < 2**63 else None), str(whole)


def _average(_: Any, values: list[Any], kind: pa.DataType) -> tuple[Any, str]:
    mean = sum(map(Fraction, values), Fraction()) / len(values)
    if not pa.types.is_decimal(kind):
        return _both(_double(mean))
    scale = kind.scale + min(4, 38 - kind.precision)
    digits = abs(mean) * 10**scale + Fraction(1, 2)
    found = _EXACT.scaleb(Decimal((1 if mean >= 0 else -1) * int(digits)), -scale)
    return found, f"{found:f}"


def _double(value: Fraction) -> float | None:
    try:
        return float(value)
    except OverflowError:
        return None


def _order(value: Any) -> Any:
    if isinstance(value, float):
        return value, not str(value).startswith("-")
    return value.encode() if isinstance(value, str) else value


def _distinct(value: CountDistinct, values: list[Any], _: pa.DataType) -> tuple[Any, str]:
    number = len(set(values))
    return _both(number) if number <= value.most else (None, f"more than {value.most}")


def _collected(value: Collect, values: list[Any], kind: pa.DataType) -> tuple[Any, str]:
    return _both(orjson.dumps([plain(one, kind) for one in values[: value.most]]).decode())


_OF: dict[type, Callable[[Any, list[Any], pa.DataType], tuple[Any, str]]] = {
    Sum: _sum,
    Average: _average,
    Min: lambda _, values, kind: _both(min(values, key=_order), kind),
    Max: lambda _, values, kind: _both(max(values, key=_order), kind),
    First: lambda _, values, kind: _both(values[0], kind),
    Last: lambda _, values, kind: _both(values[-1], kind),
    CountDistinct: _distinct,
    Collect: _collected,
}
