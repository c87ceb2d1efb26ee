"""Digests of older versions hash text with offsets of 64 bits where it may be longer than 32 bits count."""

from __future__ import annotations

import pyarrow as pa
import pytest

from effectively_once.ledger import former_digest
from effectively_once.ledger.hashes import U64, of_ids


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[pa.DataType]:
    """Types of the arrays whose values are hashed."""
    types: list[pa.DataType] = []

    def noting(ids: pa.Array) -> U64:
        types.append(ids.type)
        return of_ids(ids)

    monkeypatch.setattr(former_digest, "of_ids", noting)
    return types


def test_messages_of_a_shard_are_hashed_as_one_array_however_long_they_are(hashed: list[pa.DataType]) -> None:
    """Arrow would make several of bytes that it is told no type of, and they have no offsets together."""
    former_digest.of_rows([b"one", b"two"])
    assert hashed == [pa.large_binary()]


@pytest.mark.parametrize(("wide", "narrow"), [(pa.large_string(), pa.string()), (pa.large_binary(), pa.binary())])
def test_a_column_that_was_made_wide_stays_so_and_has_the_digest_of_a_narrow_one(
    wide: pa.DataType, narrow: pa.DataType, hashed: list[pa.DataType]
) -> None:
    values = [b"a", None, b"", b"long enough"]
    digests = {former_digest.of_rows_in(pa.table({"v": pa.array(values, kind)})) for kind in (wide, narrow)}
    assert hashed[0] == pa.large_binary()
    assert len(digests) == 1
