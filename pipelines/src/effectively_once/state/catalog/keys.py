"""Keys: the upper 40 bits of a hash, and below them the 24-bit place of the row it belongs to.

One number for both is half the size of a hash and a row number, and lets numpy's vectorised sort stand for an indirect
one, which takes three to eight times as long. 40 bits are enough: among 10 million ids the hash of another id begins
alike once in 100,000 look-ups, and then the ids' bytes are compared.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from effectively_once.ledger.hashes import U64

PREFIX_BITS = 40
PLACES = 1 << 64 - PREFIX_BITS
"""Rows that one set of keys can tell apart: 16,777,216."""
_SHIFT = np.uint64(64 - PREFIX_BITS)
_PLACE = np.uint64(PLACES - 1)


def of_hashes(hashes: U64) -> U64:
    """Sorted keys of at most PLACES rows; rows of one prefix keep their order. Raises ValueError beyond that."""
    if len(hashes) > PLACES:
        raise ValueError(f"{len(hashes)} rows at once, at most {PLACES} are possible")
    keys = hashes & ~_PLACE
    keys |= np.arange(len(hashes), dtype=np.uint64)
    keys.sort()
    return keys


def prefixes(keys: U64) -> U64:
    """Upper 40 bits, as whole numbers below 2^40."""
    return keys >> _SHIFT


def places(keys: U64) -> NDArray[np.int64]:
    """Row numbers."""
    return (keys & _PLACE).astype(np.int64)


def bounds(prefixes: U64) -> tuple[U64, U64]:
    """Lowest and highest key that begins with each prefix."""
    low = prefixes << _SHIFT
    return low, low | _PLACE


def take(array: pa.Array, rows: NDArray[np.int64]) -> pa.Array:
    """Rows of an Arrow array."""
    return array.take(pa.array(rows))
