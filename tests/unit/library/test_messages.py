"""Rows as messages: JSON of every type a column may have, keys, raw values, and dead letters as they came."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import tracemalloc
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from effectively_once import Count, Max, Pipeline, ToKafka, Windowed
from effectively_once.epoch import epoch
from effectively_once.epoch.message_bytes import LETTER_BYTES
from effectively_once.epoch.messages import dead_letters, messages
from effectively_once.sinks.tables import COLUMN_TYPES

SOURCE = {"topic": ["t"], "partition": pa.array([3], pa.int32()), "offset": pa.array([2**40], pa.int64())}
AT = datetime(2026, 1, 31, 23, 59, 59, 1, UTC)
DECIMAL = pa.decimal128(38, 2)
VALUES: dict[Any, list[tuple[Any, Any]]] = {
    pa.string(): [('é\n\x00"\\', 'é\n\x00"\\'), ("", ""), ("😀", "😀")],
    pa.int64(): [(2**63 - 1, 2**63 - 1), (-(2**63), -(2**63)), (0, 0)],
    pa.int32(): [(2**31 - 1, 2**31 - 1), (-(2**31), -(2**31))],
    pa.float64(): [(0.1, 0.1), (1e300, 1e300), (-0.0, -0.0), (math.nan, None), (math.inf, None), (-math.inf, None)],
    pa.bool_(): [(True, True), (False, False)],
    pa.binary(): [(b"", ""), (b"\x00\xff", "00ff")],
    pa.date32(): [(date(1, 1, 1), "0001-01-01"), (date(9999, 12, 31), "9999-12-31")],
    pa.timestamp("us", "UTC"): [
        (AT, "2026-01-31T23:59:59.000001+00:00"),
        (datetime(1969, 12, 31, tzinfo=UTC), "1969-12-31T00:00:00+00:00"),
    ],
    DECIMAL: [(Decimal(text), text) for text in ("1.50", f"-{'9' * 36}.99", "0.00")],
}
CASES = [(kind, *case) for kind, cases in VALUES.items() for case in [*cases, (None, None)]]


def row(**columns: Any) -> pa.Table:
    """Return one row of the input with columns; those are Arrow's or lists."""
    return pa.table({**SOURCE, **columns})


def content(message: tuple[bytes | None, bytes]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(message[1])
    return found


def test_every_type_that_a_column_may_have_is_tested() -> None:
    assert VALUES.keys() == {*COLUMN_TYPES, DECIMAL}


@pytest.mark.parametrize(("kind", "value", "told"), CASES)
def test_a_value_of_every_type_is_told_in_json(kind: Any, value: Any, told: Any) -> None:
    """Binary in hexadecimal digits, times in UTC, decimals as text, what JSON has no number for as null."""
    ((key, line),) = messages(ToKafka("k"), row(v=pa.array([value], kind)), 7)
    assert key is None
    assert json.loads(line) == {"v": told, "epoch": 7, "source": ["t", 3, 2**40]}
    (result,) = messages(ToKafka("k"), pa.table({"v": pa.array([value], kind)}), 7)
    assert content(result) == {"v": told, "epoch": 7}


def test_columns_are_told_in_the_order_that_is_asked_for_and_the_source_can_be_one_of_them() -> None:
    table = row(b=[1], a=[2], c=[3])
    (line,) = messages(ToKafka("k", columns=("c", "topic", "a")), table, 0)
    assert line[1].startswith(b'{"c":3,"topic":"t","a":2,')
    assert content(line) == {"c": 3, "topic": "t", "a": 2, "epoch": 0, "source": ["t", 3, 2**40]}
    (whole,) = messages(ToKafka("k"), table, 0)
    assert list(content(whole)) == ["b", "a", "c", "epoch", "source"]


def test_rows_of_nothing_but_their_source_tell_it_once() -> None:
    """A pipeline that counts on coordinates alone need not add a column."""
    assert not Pipeline(lambda frame: frame, pa.schema([]), ids="coordinates", rows=(ToKafka("k"),)).columns
    table = pa.concat_tables([row(), row()])
    assert [content(m) for m in messages(ToKafka("k"), table, 7)] == 2 * [{"epoch": 7, "source": ["t", 3, 2**40]}]


def test_a_key_is_the_bytes_of_its_column_and_null_is_no_key() -> None:
    """Also where the column is not part of the message."""
    texts, raw = pa.array(["é", "", None]), pa.array([b"\xff", b"", None], pa.binary())
    table = pa.table({"text": texts, "raw": raw, "n": [1, 2, 3]})
    assert [key for key, _ in messages(ToKafka("k", key="text", columns=("n",)), table, 0)] == ["é".encode(), b"", None]
    assert [key for key, _ in messages(ToKafka("k", key="raw"), table, 0)] == [b"\xff", b"", None]
    assert [key for key, _ in messages(ToKafka("k"), table, 0)] == [None, None, None]
    assert [content(m)["n"] for m in messages(ToKafka("k", key="raw"), table, 0)] == [1, 2, 3]


def test_a_value_column_is_the_message_byte_for_byte() -> None:
    """A null becomes an empty message: a null one would delete its key in a compacted topic."""
    table = pa.table({"text": ["é", "", None], "raw": pa.array([b"\x00\xff", b"", None], pa.binary())})
    assert messages(ToKafka("k", value="text"), table, 0) == [(None, "é".encode()), (None, b""), (None, b"")]
    assert messages(ToKafka("k", key="text", value="raw"), table, 0) == [
        ("é".encode(), b"\x00\xff"),
        (b"", b""),
        (None, b""),
    ]


def test_no_rows_are_no_messages() -> None:
    for to in (ToKafka("k"), ToKafka("k", key="v"), ToKafka("k", value="v"), ToKafka("k", columns=("v",))):
        assert messages(to, row(v=["a"]).slice(0, 0), 0) == []


def test_rows_of_several_batches_keep_their_order() -> None:
    """What comes from Spark is in chunks, that of each column cut as it likes."""
    table = pa.concat_tables([row(n=[n]) for n in range(5)]).set_column(3, "n", pa.chunked_array([[0, 1, 2], [3], [4]]))
    assert [content(m)["n"] for m in messages(ToKafka("k"), table, 0)] == [0, 1, 2, 3, 4]


def test_a_window_by_topic_tells_the_topic() -> None:
    """It is a column of text like any other, and the result's key."""
    made = Pipeline(
        lambda frame: frame,
        pa.schema([]),
        windows=(Windowed("topic", {"n": Count(), "last": Max("offset")}, ToKafka("per_topic", key="topic")),),
    )
    result = pa.table({"topic": ["t"], "window_start_ms": [0], "n": [1], "last": [9]})
    found: Any = epoch._for(made, "per_topic", result, 4)
    ((key, line),) = found
    assert key == b"t"
    assert json.loads(line) == {"topic": "t", "window_start_ms": 0, "n": 1, "last": 9, "epoch": 4}


def dead(value: bytes | None, identity: str | None = None, *, ids: bool = True) -> dict[str, Any]:
    known = {"id": pa.array([identity], pa.string())} if ids else {}
    ((key, line),) = dead_letters(row(**known, reason=["why"], value=pa.array([value], pa.binary())), 5)
    assert key is None
    found: dict[str, Any] = json.loads(line)
    assert found.pop("source") == ["t", 3, 2**40]
    assert (found.pop("epoch"), found.pop("reason")) == (5, "why")
    return found


@given(st.binary(max_size=50) | st.text(max_size=20).map(str.encode))
def test_a_dead_letter_holds_the_record_as_it_came(value: bytes) -> None:
    """As text where it is text, else in base64: either way the bytes can be had back."""
    told = dead(value, "i")
    again = told["value"].encode() if told["encoding"] == "utf-8" else base64.b64decode(told["value"], validate=True)
    assert again == value
    assert told["id"] == "i"
    assert told["encoding"] in ("utf-8", "base64")


def test_a_dead_letter_without_content_or_id_says_so() -> None:
    assert dead(None) == {"id": None, "value": None, "encoding": "utf-8"}
    assert dead(b"x", ids=False) == {"id": None, "value": "x", "encoding": "utf-8"}
    assert dead(b"\xff") == {"id": None, "value": "/w==", "encoding": "base64"}
    assert dead(b"\x00\\u0000") == {"id": None, "value": "\x00\\u0000", "encoding": "utf-8"}


def test_a_dead_letter_that_no_text_fits_is_base64_and_one_that_does_not_fit_either_is_cut() -> None:
    """Its id and its reason may be as large as the record is. The source tells where the record is."""
    long, cut = b"\x01" * 3_000_000, b"\x01" * 10_000_000
    digest = {"bytes": len(cut), "sha256": hashlib.sha256(cut).hexdigest()}
    for value, told in (
        (long, {"value": base64.b64encode(long).decode(), "encoding": "base64"}),
        (cut, {"value": None, "encoding": "utf-8", "cut": digest}),
    ):
        rows = row(id=["\x01" * 2_000_000], reason=["why" * 4_000_000], value=pa.array([value], pa.binary()))
        ((_, line),) = dead_letters(rows, 5)
        found: dict[str, Any] = json.loads(line)
        assert len(line) <= LETTER_BYTES
        assert (len(found.pop("reason")), found.pop("epoch"), found.pop("source")) == (1_000, 5, ["t", 3, 2**40])
        assert found == {"id": None, **told}
    ((_, line),) = dead_letters(row(id=["\x01" * 3_000_000], reason=["why"], value=pa.nulls(1, pa.binary())), 5)
    assert content((None, line))["cut"] is None


def test_an_id_that_is_no_text_is_told_as_none() -> None:
    """The topic of dead letters takes whatever comes: else the epoch, and each of its repeats, would stop at it."""
    raw = pa.array([b"ok", b"\xff\xfe"], pa.binary())
    ids = pa.Array.from_buffers(pa.string(), 2, raw.buffers())
    two = pa.table(
        {
            "topic": ["t", "t"],
            "partition": pa.array([0, 0], pa.int32()),
            "offset": [1, 2],
            "id": ids,
            "reason": ["late", "bad_id"],
            "value": [b"a", b"b"],
        }
    )
    assert [content(message)["id"] for message in dead_letters(two, 0)] == ["ok", None]


@pytest.mark.parametrize("kind", ["rows", "dead letters"])
def test_messages_take_no_more_memory_than_their_bytes(kind: str) -> None:
    """A shard holds all of its epoch at once, results of all windows that close together among them."""
    number = 2_000
    columns = {"v": pa.array(["x"] * number), "reason": pa.array(["why"] * number)}
    table = pa.concat_tables([row(v=["x"])] * number).select([*SOURCE])
    table = pa.table({**dict(zip(SOURCE, table.columns, strict=True)), **columns, "value": pa.array([b"x"] * number)})
    tracemalloc.start()
    try:
        made = dead_letters(table, 7) if kind == "dead letters" else messages(ToKafka("k"), table, 7)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(made) == number
    # Of each message an object of bytes, a pair, and a place in the list.
    assert taken / number < sum(len(line) for _, line in made) / number + 200
