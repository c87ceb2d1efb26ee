"""Digests of columns: equal values in equal order have one, whatever else differs has another."""

from __future__ import annotations

import datetime as dt
import itertools
import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from effectively_once.ledger import column_digest

NEW_YEAR = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
LATER = NEW_YEAR + dt.timedelta(microseconds=1)
COLUMNS: dict[str, tuple[Any, list[list[Any]]]] = {
    "text": (pa.string(), [["ab", "c"], ["a", "bc"], ["c", "ab"], [None, "abc"], ["abc"], ["ab", "c", ""]]),
    "bytes": (pa.binary(), [[b"\0", b""], [b"", b"\0"], [b"\0", None], [b"\0"], [b"\xff\xfe", b""]]),
    "fixed bytes": (pa.binary(2), [[b"ab", b"cd"], [b"cd", b"ab"], [b"ab", None], [b"ab", b"\0\0"]]),
    "whole numbers": (pa.int64(), [[1, 2], [2, 1], [0, 2], [None, 2], [1], [1, 2, 0], [-1, 2]]),
    "small numbers": (pa.uint8(), [[1, 255], [255, 1], [1, None], [1, 0]]),
    "numbers": (pa.float64(), [[0.0, 1.5], [-0.0, 1.5], [float("nan"), 1.5], [None, 1.5], [1.5, 0.0]]),
    "truth": (pa.bool_(), [[True, False], [False, True], [True, None], [True, True]]),
    "times": (pa.timestamp("us", "UTC"), [[NEW_YEAR, LATER], [LATER, NEW_YEAR], [NEW_YEAR, None]]),
    "days": (pa.date32(), [[dt.date(2026, 1, 1)], [dt.date(2026, 1, 2)], [None], [dt.date(1970, 1, 1)]]),
    "lists": (pa.list_(pa.int64()), [[[1], [2]], [[1, 2], []], [[], [1, 2]], [None, [1, 2]], [[None], [1, 2]]]),
    "records": (pa.struct([("a", pa.float64())]), [[{"a": 1.0}], [{"a": None}], [None], [{"a": 1.5}]]),
    "nothing": (pa.null(), [[None], [None, None]]),
}


def _column(values: list[Any], kind: Any) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, kind)])


@pytest.mark.parametrize("name", COLUMNS)
def test_other_values_another_order_and_other_nulls_have_other_digests(name: str) -> None:
    kind, columns = COLUMNS[name]
    digests = [column_digest.of_values(_column(values, kind)) for values in columns]
    assert len(set(digests)) == len(columns)


@given(st.sampled_from(sorted(COLUMNS)), st.integers(0, 2**32))
def test_chunks_and_slices_do_not_count(name: str, seed: int) -> None:
    kind, columns = COLUMNS[name]
    rng = random.Random(seed)
    values = [rng.choice(rng.choice(columns)) for _ in range(rng.randrange(1, 20))]
    cuts = sorted(rng.randrange(len(values) + 1) for _ in range(rng.randrange(4)))
    padded = pa.array([*values[:1], *values, *values[:1]], kind)
    bounds = [0, *cuts, len(values)]
    chunks = [padded.slice(first + 1, end - first) for first, end in itertools.pairwise(bounds)]
    assert column_digest.of_values(pa.chunked_array(chunks, kind)) == column_digest.of_values(_column(values, kind))


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.timestamp("ms")])
def test_what_stands_behind_a_null_does_not_count(kind: Any) -> None:
    """Filters and casts leave there what they like."""
    whole = pa.array([1, 2, 3], pa.int64()).view(kind)
    holed = pa.Array.from_buffers(kind, 3, [pa.py_buffer(b"\x05"), whole.buffers()[1]])
    assert holed.null_count == 1
    clean = pa.array([one.as_py() if one.is_valid else None for one in holed], kind)
    assert column_digest.of_values(pa.chunked_array([holed])) == column_digest.of_values(pa.chunked_array([clean]))


def test_text_of_large_and_of_usual_offsets_is_the_same_text() -> None:
    texts: list[Any] = ["a", None, "é"]
    assert column_digest.of_values(_column(texts, pa.string())) == column_digest.of_values(
        _column(texts, pa.large_string())
    )
