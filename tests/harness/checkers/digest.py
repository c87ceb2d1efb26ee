"""The order-independent digest of a set of rows, written down a second time and independently of the pipeline."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

_MODULUS = 1 << 128


def digest(rows: Iterable[bytes]) -> str:
    """32 hex digits: the sum modulo 2^128 of BLAKE2b-128 of each row's canonical bytes, read little-endian."""
    total = 0
    for row in rows:
        total += int.from_bytes(blake2b(row, digest_size=16).digest(), "little")
    return f"{total % _MODULUS:032x}"


def add(digests: Iterable[str]) -> str:
    """Return the digest of the union of disjoint sets of rows, from their digests.

    Raises:
        ValueError: a digest is not a hexadecimal number below 2^128.

    """
    total = 0
    for text in digests:
        value = int(text, 16)
        if not 0 <= value < _MODULUS:
            raise ValueError(f"digest is not 32 hex digits: {text!r}")
        total += value
    return f"{total % _MODULUS:032x}"
