"""Where a dead letter stops being text, where it stops holding its record or the values of its result: to the byte."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import orjson
import pyarrow as pa
import pytest

from effectively_once import Collect, Last, Pipeline, Sum, ToKafka, Windowed
from effectively_once.epoch import messages, too_large
from effectively_once.epoch.message_bytes import LETTER_BYTES
from effectively_once.epoch.messages import PORTION, dead_letters

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


def letter(value: bytes) -> bytes:
    """Write the dead letter of a record with the id `i`."""
    rows = {
        "topic": ["t"],
        "partition": pa.array([3], pa.int32()),
        "offset": pa.array([2**40], pa.int64()),
        "id": ["i"],
        "reason": ["why"],
        "value": pa.array([value], pa.binary()),
    }
    ((_, line),) = dead_letters(pa.table(rows), 5)
    return line


def test_a_letter_as_large_as_its_topic_takes_is_the_record_as_it_came() -> None:
    around = len(letter(b""))
    line = letter(b"x" * (LETTER_BYTES - around))
    assert len(line) == LETTER_BYTES
    assert (json.loads(line)["encoding"], json.loads(line)["id"]) == ("utf-8", "i")
    assert json.loads(letter(b"x" * (LETTER_BYTES - around + 1)))["id"] is None


def test_a_record_is_cut_from_the_size_on_that_leaves_no_room_around_its_base64() -> None:
    room = LETTER_BYTES - messages._AROUND_BYTES
    least = -(-3 * room // 4)
    assert least * 4 // 3 == room
    whole, cut = (json.loads(letter(b"\x01" * size)) for size in (least - 1, least))
    assert (whole["encoding"], "cut" in whole) == ("base64", False)
    assert (cut["value"], cut["cut"]["bytes"]) == (None, least)


def test_a_portion_of_rows_at_a_time_is_held_as_objects() -> None:
    table = pa.table({"n": range(2 * PORTION + 1)})
    assert [len(numbers) for (numbers,) in messages._portions(table, ("n",))] == [PORTION, PORTION, 1]


def letter_of_result(text: str, reason: str = "sum_too_large") -> tuple[bytes, dict[str, Any], dict[str, Any]]:
    exact = {"key": "1|an~1n", "window_start_ms": 60_000, "sum": 2**64, "last": text, "some": f'["{text}"]'}
    key, body = too_large.letter(STEP, WINDOWS, 2, reason, exact)
    assert key is None
    line = orjson.loads(body)
    return body, line, orjson.loads(line["value"])


def test_it_tells_key_window_and_values_of_a_result_as_text() -> None:
    _, line, value = letter_of_result("tea")
    assert (line["source"], line["epoch"], line["reason"]) == (["p.results", 3, 2], 7, "sum_too_large")
    by = {"day": "1970-01-02", "user": "an|n", "window_start_ms": 60_000}
    assert value == {**by, "sum": str(2**64), "last": "tea", "some": '["tea"]'}


@pytest.mark.parametrize("text", ["x" * LETTER_BYTES, '"' * (LETTER_BYTES // 3), "\x01" * (LETTER_BYTES // 8)])
def test_values_beyond_its_topic_are_shortened_and_its_key_is_not(text: str) -> None:
    """It could never be published, and its epoch neither: nobody judges the texts of a result by their dead letter."""
    body, line, value = letter_of_result(text, "result_refused_by_table results: " + "c" * LETTER_BYTES)
    assert len(body) <= LETTER_BYTES
    assert (value["day"], value["user"], value["window_start_ms"]) == ("1970-01-02", "an|n", 60_000)
    assert (value["sum"], value["last"]) == (str(2**64), text[: too_large.SHORT_CHARACTERS // 3])
    assert line["reason"].startswith("result_refused_by_table results: ccc")


def test_a_letter_of_a_result_that_fits_is_whole() -> None:
    text = "x" * (LETTER_BYTES // 3)
    assert letter_of_result(text)[2]["last"] == text
