"""What no sink could hold: the limits that a declaration gives its columns, and what a recorded step may not answer."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from effectively_once import Count, Pipeline, RecordedStep, ToFiles, ToKafka, ToTable, Windowed
from effectively_once.epoch.publishable import Limits, faults, limits

DAYS, MICROS = pa.date32(), pa.timestamp("us", "UTC")


def declared(*rows: Any, by: ToTable | None = None, adds: pa.Schema | None = None) -> Pipeline:
    return Pipeline(
        lambda frame: frame,
        pa.schema([("user", pa.string())]),
        rows=rows,
        windows=(Windowed("user", {"n": Count()}, by),) if by else (),
        recorded=RecordedStep("ask", lambda rows: rows, adds) if adds else None,
    )


def test_a_text_of_a_table_has_no_zero_byte_and_one_of_its_key_a_length() -> None:
    given = limits(declared(ToTable("orders", key=("id",)), adds=pa.schema([("city", pa.string())])))
    assert given["id"] == Limits(zero_bytes=False, key_bytes=2_680, nulls=False)
    assert given["user"] == given["city"] == Limits(zero_bytes=False)


def test_a_text_of_messages_has_no_limit() -> None:
    assert set(limits(declared(ToKafka("told"))).values()) == {Limits()}


def test_the_columns_of_a_key_share_the_row_of_its_index() -> None:
    """A number takes a part of it, and the narrowest of several tables bounds them all."""
    both = limits(declared(ToTable("orders", key=("id", "user")), by=ToTable("n", key=("user", "window_start_ms"))))
    assert (both["id"].key_bytes, both["user"].key_bytes) == (1_332, 1_332)
    assert limits(declared(by=ToTable("n", key=("user", "window_start_ms"))))["user"].key_bytes == 2_664


GOOD = [
    (pa.float64(), [0.1, -0.0, 1e308, None]),
    (DAYS, [-719_162, 2_932_896, None]),
    (MICROS, [-62_135_596_800_000_000, 253_402_300_799_999_999, None]),
    (pa.string(), ["é" * 10, None]),
]
UNFIT = [
    (pa.float64(), [float("nan"), float("inf"), -float("inf")], "is not a finite number in 3 rows"),
    (DAYS, [-719_163, 2_932_897], "is beyond the years 1 to 9999 in 2 rows"),
    (MICROS, [-(2**62), 2**62], "is beyond the years 1 to 9999 in 2 rows"),
    (pa.string(), ["a\0b"], "has a zero byte, which no table takes, in 1 rows"),
    (pa.string(), ["é" * 11], "is longer than 20 bytes, which a table's key may have, in 1 rows"),
]


@pytest.mark.parametrize(("kind", "values", "says"), [*((*good, None) for good in GOOD), *UNFIT])
def test_a_value_that_no_sink_could_hold_is_named_with_its_column(
    kind: pa.DataType, values: list[Any], says: str | None
) -> None:
    bounds = {"c": Limits(zero_bytes=False, key_bytes=20 if pa.types.is_string(kind) else None)}
    numbers = {DAYS: pa.int32(), MICROS: pa.int64()}.get(kind, kind)
    column = pa.chunked_array([pa.array(values, numbers).cast(kind)])
    assert list(faults(pa.table({"c": column}), bounds)) == ([] if says is None else [f"c {says}"])
    assert list(faults(pa.table({"c": column.slice(0, 0)}), bounds)) == []


def test_no_part_of_a_tables_key_is_null() -> None:
    """A transform's null there is a dead letter, a recorded step's is named before it is recorded."""
    adds = pa.schema([("part", pa.int64())])
    pipeline = declared(ToTable("orders", key=("id", "user", "part")), adds=adds)
    assert pipeline.required == ("id", "event_time_ms", "user")
    given = pa.table({"part": pa.array([1, None], pa.int64())})
    assert list(faults(given, limits(pipeline))) == ["part is null, which no part of a table's key is, in 1 rows"]


def test_a_column_that_is_declared_not_null_makes_a_dead_letter_of_a_null() -> None:
    """Nothing else would look: a file of such a column cannot be written, so the epoch would fail in each repeat."""
    made = Pipeline(lambda frame: frame, "user string NOT NULL, amount bigint", rows=(ToFiles("archive"),))
    assert made.required == ("id", "event_time_ms", "user")
