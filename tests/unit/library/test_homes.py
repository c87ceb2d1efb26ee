"""Which shard ids and keys belong to, as Spark deals them, and which rows of a delta a shard takes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from effectively_once.state import homes
from tests.harness.checkers.xxhash64 import shard_of

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
