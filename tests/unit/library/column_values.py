"""Every type that a column can have, and values to be drawn of it, those at its ends among them."""

from __future__ import annotations

import math
from datetime import UTC, date
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

EXACT = Context(prec=100, rounding=ROUND_HALF_UP)
LAST_DAY = date(9999, 12, 31)
LARGEST = 1.7976931348623157e308
_DOUBLES = (LARGEST, -LARGEST, 0.0, -0.0, 5e-324, -5e-324, 2.2250738585072014e-308, 0.1, 1e16, -1e16, math.pi)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    whole = st.sampled_from([0, 1, -1, most, -most, 2**43, 2**63]) | st.integers(-most, most)
    return whole.filter(lambda value: abs(value) <= most).map(lambda value: EXACT.scaleb(Decimal(value), -scale))


KINDS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.sampled_from([2**63 - 1, -(2**63), 0, 1]) | st.integers(-9, 9),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.float64(): st.sampled_from(_DOUBLES) | st.floats(allow_nan=False, allow_infinity=False),
    pa.decimal128(5, 2): decimals(5, 2),
    pa.decimal128(18, 0): decimals(18, 0),
    pa.decimal128(19, 19): decimals(19, 19),
    pa.decimal128(38, 2): decimals(38, 2),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(max_value=LAST_DAY),
    pa.timestamp("us", "UTC"): st.datetimes(timezones=st.just(UTC)),
    pa.string(): st.sampled_from(["", "a", "a\0", "é", "\U0001f600", "x" * 40]) | st.text(max_size=3),
    pa.binary(): st.binary(max_size=3),
}
"""Every type that a column can have, and its values."""
