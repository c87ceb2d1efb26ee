"""Where a dead letter stops being text, and where it stops holding its record, to the byte."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from effectively_once.epoch import messages
from effectively_once.epoch.message_bytes import LETTER_BYTES
from effectively_once.epoch.messages import PORTION, dead_letters


def letter(value: bytes, identity: str) -> bytes:
    rows = {
        "topic": ["t"],
        "partition": pa.array([3], pa.int32()),
        "offset": pa.array([2**40], pa.int64()),
        "id": [identity],
        "reason": ["why"],
        "value": pa.array([value], pa.binary()),
    }
    ((_, line),) = dead_letters(pa.table(rows), 5)
    return line


def read_letter(line: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(line)
    return found


def test_a_letter_as_large_as_its_topic_takes_is_the_record_as_it_came() -> None:
    around = len(letter(b"", "i"))
    line = letter(b"x" * (LETTER_BYTES - around), "i")
    assert len(line) == LETTER_BYTES
    assert (read_letter(line)["encoding"], read_letter(line)["id"]) == ("utf-8", "i")
    line = letter(b"x" * (LETTER_BYTES - around + 1), "i")
    assert read_letter(line)["id"] is None


def test_a_record_is_cut_from_the_size_on_that_leaves_no_room_around_its_base64() -> None:
    room = LETTER_BYTES - messages._AROUND_BYTES
    least = -(-3 * room // 4)
    assert least * 4 // 3 == room
    whole, cut = (read_letter(letter(b"\x01" * size, "i")) for size in (least - 1, least))
    assert (whole["encoding"], "cut" in whole) == ("base64", False)
    assert (cut["value"], cut["cut"]["bytes"]) == (None, least)


def test_a_portion_of_rows_at_a_time_is_held_as_objects() -> None:
    table = pa.table({"n": range(2 * PORTION + 1)})
    assert [len(numbers) for (numbers,) in messages._portions(table, ("n",))] == [PORTION, PORTION, 1]
