"""Records with a decimal, a day and a moment: most as they should be, many a little otherwise."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

from hypothesis import strategies as st

DIGITS = st.text("0123456789", min_size=1, max_size=45)
NUMBERS = st.one_of(
    st.decimals(-1_200, 1_200, places=2).map(str),
    st.decimals(-1_200, 1_200, places=4).map(str),
    st.builds(
        lambda sign, whole, rest: f"{sign}{int(whole)}{rest}",
        st.sampled_from(["", "-"]),
        DIGITS,
        DIGITS.map(".{}".format),
    ),
    st.integers(-(10**40), 10**40).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(json.dumps),
)
"""As JSON writes them."""
DAYS = st.dates(date(1, 1, 1)).map(date.isoformat)
MOMENTS = st.builds(
    lambda at, rest, zone: f"{at.replace(tzinfo=None, microsecond=0).isoformat()}{rest}{zone}",
    st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=st.just(UTC)),
    st.one_of(st.just(""), st.text("0123456789", min_size=1, max_size=9).map(".{}".format)),
    st.one_of(st.just("Z"), st.from_regex(r"[+-][01][0-9]:[0-6][0-9]", fullmatch=True)),
)


@st.composite
def changed(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> str:
    """Draw a text with one character put in, taken out or replaced, or as it is."""
    text: str = draw(texts)
    if not text or draw(st.integers(0, 2)):
        return text
    at = draw(st.integers(0, len(text)))
    by: str = draw(st.sampled_from([*"0123456789-+:.TZz \n\t", "", "\u0660"]))
    return text[:at] + by + text[at + draw(st.integers(0, 1)) :]


OTHERS: st.SearchStrategy[Any] = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.text(max_size=3))


@st.composite
def typed_records(draw: st.DrawFn) -> str:
    """Draw a record as JSON: amount, day and at, each of which may be another kind of value."""

    def value(kind: st.SearchStrategy[str]) -> str:
        return draw(kind) if draw(st.integers(0, 9)) else json.dumps(draw(OTHERS))

    texts = {"day": changed(DAYS), "at": changed(MOMENTS)}
    parts = [f'"amount":{value(NUMBERS)}', *(f'"{name}":{value(kind.map(json.dumps))}' for name, kind in texts.items())]
    return "{" + ",".join(parts) + "}"
