"""Keys of windows as text, each of which comes back as it was; and which shard keys and ids belong to."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effectively_once import Count, Pipeline, ToKafka, ToTable, Windowed, long_texts
from effectively_once.epoch import between
from effectively_once.state import homes, keys
from tests.depth import examples
from tests.harness.checkers.xxhash64 import shard_of
from tests.unit.library.column_values import KINDS

ODD = st.text(st.sampled_from(["~", "|", "0", "1", "a", "é", "\0"]), max_size=5)
VALUES = {**KINDS, pa.string(): ODD}


@given(st.lists(st.sampled_from(keys.TYPES), min_size=1, max_size=3).flatmap(
    lambda kinds: st.tuples(st.just(kinds), st.lists(st.tuples(*(VALUES[kind] for kind in kinds)), min_size=1))
))  # fmt: skip
def test_keys_come_back_and_no_two_are_one_text(drawn: tuple[list[pa.DataType], list[tuple[Any, ...]]]) -> None:
    kinds, rows = drawn
    names = [f"c{number}" for number in range(len(kinds))]
    columns = {
        name: pa.array([row[at] for row in rows], kind)
        for at, (name, kind) in enumerate(zip(names, kinds, strict=True))
    }
    texts = keys.encode(pa.table(columns), names)
    found = [column.to_pylist() for column in keys.decode(texts, kinds)]
    assert [*zip(*found, strict=True)] == rows
    assert len(set(texts.to_pylist())) == len(set(rows))


@settings(max_examples=examples(20))
@given(st.lists(ODD, min_size=1))
def test_a_text_is_its_own_key_as_ever(texts: list[str]) -> None:
    assert keys.encode(pa.table({"user": pa.array(texts, pa.string())}), ("user",)).to_pylist() == texts


@pytest.mark.parametrize("bytes_", [1, 10**9])
def test_texts_that_one_array_does_not_hold_are_joined_all_the_same(bytes_: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(long_texts, "ARRAY_BYTES", bytes_)
    rows = pa.table({"a": ["x|", "y"], "b": ["~", "z"]})
    found = keys.encode(rows, ("a", "b"))
    assert (found.type, found.to_pylist()) == (pa.string(), ["x~1|~0", "y|z"])


def test_the_table_of_results_has_the_columns_of_the_key_and_their_types() -> None:
    columns = "user string, day date, flag boolean, n bigint, at timestamp, shop int"
    by = ("day", "user", "flag", "n", "at", "shop")
    windows = Windowed(by, {"rows": Count()}, ToTable("t", key=(*by, "window_start_ms")))
    made = Pipeline(lambda frame: frame, columns, windows=(windows, Windowed("n", {"rows": Count()}, ToKafka("k"))))
    assert made.tables["t"].types == {
        "day": "date",
        "user": "text",
        "flag": "boolean",
        "n": "bigint",
        "at": "timestamp with time zone",
        "shop": "integer",
        "window_start_ms": "bigint",
        "rows": "bigint",
    }
    assert between.ddl(made).startswith("kind string, shard int, of string, key string, window_start_ms")
    assert made.required == ("id", "event_time_ms", "user", "day", "flag", "n", "at", "shop")


TEXTS = ["", "a", "ann|2", "é", "x" * 33, *map(str, range(200))]


@pytest.mark.parametrize("shards", [1, 2, 3, 7, 256])
def test_ids_have_the_shards_that_spark_gives_them(shards: int) -> None:
    """`shard_of` of the harness is held to Spark's answers by a test of its own."""
    for text in TEXTS:
        assert homes.shard_of(text.encode(), shards) == shard_of(text, shards)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary()])
@pytest.mark.parametrize("shards", [1, 3])
def test_each_row_of_a_delta_is_taken_by_one_shard(kind: pa.DataType, shards: int) -> None:
    """By its first column: an id or a key."""
    delta = pa.table({"id": pa.array(TEXTS).cast(kind), "event_time_ms": range(len(TEXTS))})
    for shard in range(shards):
        taken = homes.keep(delta, shard, shards)
        assert taken.schema == delta.schema
        due = [at for at, text in enumerate(TEXTS) if shard_of(text, shards) == shard]
        assert taken["event_time_ms"].to_pylist() == due
