"""Which shard the rows of a delta belong to, once there is another number of shards than when they were decided.

The rule is that of `epoch.rows.shard_of`, by which Spark deals rows to shards: the signed xxHash64 of the key, with
Spark's seed, modulo the number of shards.
"""

from __future__ import annotations

import pyarrow as pa
from xxhash import xxh64_intdigest

SEED = 42
_SIGN = 1 << 63


def shard_of(key: bytes, shards: int) -> int:
    """Return the shard of an id or of the key of a window, as bytes (UTF-8 of a text)."""
    hashed = xxh64_intdigest(key, SEED)
    return (hashed - (1 << 64) if hashed & _SIGN else hashed) % shards


def keep(delta: pa.Table, shard: int, shards: int | None) -> pa.Table:
    """Return the rows of a delta that are of a shard; its first column is what shards go by."""
    assert shards is not None  # noqa: S101 - only a driver names deltas of another number of shards, and it knows both
    keys = delta.column(0).cast(pa.large_binary()).to_pylist()
    return delta.filter(pa.array([shard_of(key, shards) == shard for key in keys], pa.bool_()))
