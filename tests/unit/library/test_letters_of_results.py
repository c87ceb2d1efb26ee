"""Dead letters of results: their key is always whole, their values are as much as the topic takes."""

from __future__ import annotations

from datetime import date
from types import SimpleNamespace
from typing import Any

import orjson
import pyarrow as pa
import pytest

from effectively_once import Collect, Last, Pipeline, Sum, ToKafka, Windowed
from effectively_once.epoch import too_large
from effectively_once.epoch.message_bytes import LETTER_BYTES

WINDOWS = Windowed(
    ("day", "user"), {"sum": Sum("n"), "last": Last("text"), "some": Collect("text", 3)}, ToKafka("results")
)
PIPELINE = Pipeline(lambda frame: frame, "day date, user string, n bigint, text string", windows=(WINDOWS,))
STEP: Any = SimpleNamespace(
    shard=3,
    task=SimpleNamespace(
        pipeline=PIPELINE, settings=SimpleNamespace(pipeline="p"), declaration=SimpleNamespace(epoch=7)
    ),
)


def letter(text: str, reason: str = "sum_too_large") -> tuple[bytes, dict[str, Any], dict[str, Any]]:
    exact = {"key": "1|an~1n", "window_start_ms": 60_000, "sum": 2**64, "last": text, "some": f'["{text}"]'}
    key, body = too_large.letter(STEP, WINDOWS, 2, reason, exact)
    assert key is None
    line = orjson.loads(body)
    return body, line, orjson.loads(line["value"])


def test_it_tells_key_window_and_values_as_text() -> None:
    _, line, value = letter("tea")
    assert (line["source"], line["epoch"], line["reason"]) == (["p.results", 3, 2], 7, "sum_too_large")
    by = {"day": date(1970, 1, 2).isoformat(), "user": "an|n", "window_start_ms": 60_000}
    assert value == {**by, "sum": str(2**64), "last": "tea", "some": '["tea"]'}


@pytest.mark.parametrize("text", ["x" * LETTER_BYTES, '"' * (LETTER_BYTES // 3), "\x01" * (LETTER_BYTES // 8)])
def test_values_beyond_its_topic_are_shortened_and_its_key_is_not(text: str) -> None:
    """It could never be published, and its epoch neither: nobody judges the texts of a result by their dead letter."""
    body, line, value = letter(text, "result_refused_by_table results: " + "c" * LETTER_BYTES)
    assert len(body) <= LETTER_BYTES
    assert (value["day"], value["user"], value["window_start_ms"]) == ("1970-01-02", "an|n", 60_000)
    assert (value["sum"], value["last"]) == (str(2**64), text[: too_large.SHORT_CHARACTERS // 3])
    assert line["reason"].startswith("result_refused_by_table results: ccc")


def test_a_letter_that_fits_is_whole() -> None:
    text = "x" * (LETTER_BYTES // 3)
    assert letter(text)[2]["last"] == text


def test_columns_of_the_key_are_of_their_types() -> None:
    assert WINDOWS.schema(PIPELINE.row_schema).field("day").type == pa.date32()
