"""The forms of days and moments in JSON, in plain Python; `tests/spark/test_json_records.py` reads them with Spark."""

from __future__ import annotations

import json
import re
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effectively_once.pipeline.json import FORMS
from tests.depth import examples
from tests.fuzz.reading import read
from tests.fuzz.typed import DAYS, MOMENTS, changed, typed_records
from tests.spark.test_json_records import TYPED, TYPED_FIELDS

SAME = settings(deadline=None, database=None, derandomize=True, max_examples=examples(2_000))
FIELDS = dict(field.split() for field in TYPED_FIELDS.split(", "))
KINDS = {"day": "date", "at": "timestamp"}


def taken(name: str, text: str) -> bool:
    return read(json.dumps({name: text}).encode(), FIELDS)[0] is None


def test_plain_python_reads_the_table_that_holds_for_spark() -> None:
    found = {text: read(text.encode(), FIELDS) for text in TYPED}
    assert {text: (reason, tuple(row.values())) for text, (reason, row) in found.items()} == TYPED


@pytest.mark.parametrize(("kind", "text"), [("date", "2026-11-27"), ("timestamp", "2026-11-27T15:04:05Z")])
def test_a_form_ends_where_its_text_ends(kind: str, text: str) -> None:
    """Spark takes what stands behind it away before it converts."""
    assert re.search(FORMS[kind], text)
    assert not [end for end in ("\n", "\r\n", " ", "\u2028", "x") if re.search(FORMS[kind], text + end)]


@SAME
@given(st.one_of(*(st.tuples(st.just(name), changed(texts)) for name, texts in (("day", DAYS), ("at", MOMENTS)))))
def test_the_form_has_all_that_is_taken_and_of_the_rest_only_what_no_calendar_has(given_text: tuple[str, str]) -> None:
    name, text = given_text
    formed = re.search(FORMS[KINDS[name]], text) is not None
    if taken(name, text):
        assert formed
    elif formed:
        with pytest.raises(ValueError, match=r"\w"):
            look_up(text)


def look_up(text: str) -> None:
    """What a calendar says of a day and a time of day, whatever stands behind."""
    datetime.strptime(text[:19], "%Y-%m-%dT%H:%M:%S" if "T" in text else "%Y-%m-%d")


@SAME
@given(typed_records())
def test_what_is_drawn_is_one_object_whose_fields_alook_up_or_named(value: str) -> None:
    reason, row = read(value.encode(), FIELDS)
    assert reason in {None, "bad_amount", "bad_day", "bad_at"}, (value, row)
