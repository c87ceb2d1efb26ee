"""How large messages are taken to be before they are made: never smaller than they are."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effectively_once import (
    Collect,
    Count,
    CountDistinct,
    First,
    Last,
    Max,
    Pipeline,
    RecordedStep,
    Stateful,
    Sum,
    ToFiles,
    ToKafka,
    ToTable,
    Windowed,
)
from effectively_once.epoch.message_bytes import (
    BATCH_BYTES,
    LETTER_BYTES,
    LONG,
    SHORT,
    Message,
    faults,
    messages_of,
    of_records,
)
from effectively_once.epoch.messages import messages
from effectively_once.sinks.tables import COLUMN_TYPES
from tests.depth import examples

DECIMALS = (pa.decimal128(38, 38), pa.decimal128(1, 0))
COLUMNS = pa.schema([(f"c{number}", kind) for number, kind in enumerate((*COLUMN_TYPES, *DECIMALS))])
WIDEST: dict[Any, Any] = {
    pa.string(): "",
    pa.binary(): b"",
    pa.int64(): -(2**63),
    pa.int32(): -(2**31),
    pa.bool_(): False,
    pa.float64(): -2.2250738585072014e-308,
    pa.date32(): date(9999, 12, 31),
    pa.timestamp("us", "UTC"): datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC),
    DECIMALS[0]: Decimal("-0." + "9" * 38),
    DECIMALS[1]: Decimal(-9),
}
TOPIC = "t" * 249


def declared(*rows: Any, adds: pa.Schema | None = None, windows: tuple[Windowed, ...] = ()) -> Pipeline:
    step = RecordedStep("ask", lambda rows: rows, adds) if adds else None
    return Pipeline(lambda frame: frame, COLUMNS, rows=rows, recorded=step, windows=windows)


@pytest.mark.parametrize(
    "to",
    [
        ToKafka("k"),
        ToKafka("k", key="c0"),
        ToKafka("k", columns=("topic", "c0")),
        ToKafka("k", value="c5"),
        ToKafka("k", columns=("c1",)),
    ],
)
@pytest.mark.parametrize("nulls", [False, True])
def test_no_message_is_larger_than_its_texts_and_the_room_that_is_left_beside_them(to: ToKafka, nulls: bool) -> None:
    """With every number, time and coordinate as long as it can be."""
    pipeline = declared(to)
    (message,) = messages_of(pipeline)
    values = {field.name: None if nulls else WIDEST[field.type] for field in COLUMNS}
    values |= {"topic": TOPIC, "partition": 2**31 - 1, "offset": -(2**63), "id": "", "event_time_ms": -(2**63)}
    ((key, line),) = messages(to, pa.Table.from_pylist([values], pipeline.row_schema), 2**63 - 1)
    around = to.message_bytes_max - message.room
    assert len(line) + len(key or b"") + BATCH_BYTES <= around
    assert around - len(line) < 600


@given(st.text())
def test_a_text_is_as_long_as_its_characters_say(text: str) -> None:
    ((_, line),) = messages(ToKafka("k", columns=("c0",)), pa.table({"c0": [text]}), 0)
    size = len(text.encode()) + sum(one in SHORT for one in text) + 5 * sum(one in LONG for one in text)
    assert len(line) == len(b'{"c0":"","epoch":0}') + size


def test_what_a_message_is_made_of() -> None:
    """What goes to tables and files has no such limit, and a number is no text."""
    sums = Windowed("c0", {"s": Sum("c1")}, ToKafka("sums", key="c0"))
    pipeline = declared(ToKafka("k", key="c0"), ToTable("t"), ToFiles("f"), windows=(sums,))
    assert [(part.reason, part.json, part.raw) for part in of_records(pipeline)] == [
        ("large_k", ("id", "c0", "c5"), ("c0",)),
        ("large_sums", ("c0",), ("c0",)),
        ("large_sums", ("c0", "c0"), ()),
    ]
    most = Windowed("c0", {"n": Count(), "m": Max("c1")}, ToFiles("most"))
    assert of_records(declared(ToTable("t"), windows=(most,))) == []
    by_topic = Windowed("topic", {"n": Count()}, ToKafka("topics", key="topic"))
    assert of_records(declared(windows=(by_topic,))) == []
    assert of_records(declared(windows=(sums,)))[1].room < LETTER_BYTES


def test_of_a_stateful_query_the_columns_that_it_shares_with_records_are_judged() -> None:
    """What it makes of its own has the other half; nobody knows it before."""
    schema = pa.schema([("c0", pa.string()), ("c1", pa.string()), ("told", pa.string())])
    results = Stateful(lambda rows: rows, schema, by="c0", to=ToKafka("results", key="c0"))
    (part,) = of_records(Pipeline(lambda frame: frame, COLUMNS, stateful=results))
    (whole,) = messages_of(Pipeline(lambda frame: frame, COLUMNS, stateful=results))
    assert (part.reason, part.json, part.raw) == ("large_results", ("c0",), ("c0",))
    assert (whole.json, part.room) == (("c0", "c1", "told"), whole.room // 2)


def test_texts_of_a_record_and_of_an_answer_have_half_of_a_message_each() -> None:
    whole = Message("k", 1_001, ("a", "b"), ("a",))
    assert whole.of(["a", "b", "c"]) == whole
    assert whole.of(["a"]) == Message("k", 500, ("a",), ("a",))
    assert whole.of(["b"]) == Message("k", 500, ("b",), ())
    assert whole.of(["c"]) is None
    assert whole.most == {"a": 7, "b": 6}


@pytest.mark.parametrize(
    ("answer", "fits"),
    [
        ("x" * 32_000, True),
        ("x" * 33_000, False),
        ("\n" * 17_000, False),
        ("\x01" * 5_000, True),
        ("\x01" * 6_000, False),
        (None, True),
    ],
)
def test_an_answer_that_is_too_large_is_named_with_its_sink(answer: str | None, fits: bool) -> None:
    adds = pa.schema([("city", pa.string()), ("rate", pa.float64())])
    given_ = pa.table({"city": [answer, "Rome"], "rate": [math.pi, None]}, adds)
    told = list(faults(declared(ToKafka("k", message_bytes_max=65_536), adds=adds), given_))
    assert [line.partition(" the ")[0] for line in told] == ([] if fits else ["city take more than"])
    assert all(line.endswith("of sink 'k' in 1 rows") for line in told)
    assert list(faults(declared(ToTable("t"), adds=adds), given_)) == []


def test_bytes_that_are_answered_count_twice_in_json_and_once_as_they_are() -> None:
    adds = pa.schema([("b", pa.binary())])
    given_ = pa.table({"b": [b"\xff" * 40_000]}, adds)
    for to, fits in (
        (ToKafka("k", message_bytes_max=65_536, value="b"), True),
        (ToKafka("k", message_bytes_max=65_536, columns=("b",)), False),
    ):
        assert (list(faults(declared(to, adds=adds), given_)) == []) is fits


VALUES: dict[str, Any] = {
    "first": First("c0"),
    "last": Last("c0"),
    "some": Collect("c0", 3),
    "raw": Collect("c1", 2),
    "numbers": Collect("c3", 4),
}
"""Texts of several records in one result."""
ESCAPED = st.text(st.sampled_from(['"', "\\", "\x01", "\n", "a", "é", "\U0001f600"]), max_size=400)


@settings(max_examples=examples(40))
@given(ESCAPED.filter(bool), st.sampled_from([65_536, 20_000_000]))
def test_no_result_of_texts_is_larger_than_its_topic_takes(text: str, most: int) -> None:
    """Of records as large as they may be, none of which knows the others. One of them is the key of the message too."""
    to = ToKafka("k", message_bytes_max=most, key="last")
    part = messages_of(declared(windows=(Windowed("c0", VALUES, to),)))[0]
    raw = text.encode()[:40]
    longest = text * ((part.room - 2 * len(raw)) // (len(part.json) * _as_json(text)))
    result = {
        "c0": "k",
        "window_start_ms": -(2**63),
        "first": longest,
        "last": longest,
        "some": orjson.dumps([longest] * 3).decode(),
        "raw": orjson.dumps([raw.hex()] * 2).decode(),
        "numbers": orjson.dumps([-(2**63)] * 4).decode(),
    }
    whole = orjson.dumps({**result, "epoch": 2**63 - 1})
    assert len(whole) + len(longest.encode()) + BATCH_BYTES <= most


@pytest.mark.parametrize("columns", [(), ("c1", "window_start_ms")])
def test_a_result_that_is_the_key_of_its_message_counts_there_too(columns: tuple[str, ...]) -> None:
    to = ToKafka("k", key="last", columns=columns, message_bytes_max=65_536)
    (part,) = messages_of(declared(windows=(Windowed("c1", {"last": Last("c0")}, to),)))[-1:]
    longest = "x" * (part.room // len(part.json))
    shown = {"last": longest} if not columns else {}
    whole = orjson.dumps({"c1": -(2**63), "window_start_ms": -(2**63), **shown, "epoch": 2**63 - 1})
    assert 65_000 < len(whole) + len(longest) + BATCH_BYTES <= 65_536


@pytest.mark.parametrize(
    ("value", "to", "letters"),
    [
        (Last("c0"), ToKafka("k"), False),
        (CountDistinct("c0"), ToKafka("k"), True),
        # Its constraints may refuse a result.
        (Last("c0"), ToTable("t"), True),
    ],
)
def test_a_key_has_room_in_the_dead_letters_of_results_and_no_value_takes_it(
    value: Any, to: Any, letters: bool
) -> None:
    """Values are shortened there: thousands of them would leave a record nothing."""
    many = {"v": value, "many": Collect("c0", 5_000)}
    parts = messages_of(declared(windows=(Windowed("c0", many, to),)))
    found = parts[isinstance(to, ToKafka) :]
    assert [(part.json, part.room > LETTER_BYTES // 2) for part in found] == [(("c0", "c0"), True)] * letters


def _as_json(text: str) -> int:
    return len(orjson.dumps(text)) - 2
