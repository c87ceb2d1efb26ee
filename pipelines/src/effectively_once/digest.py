"""Order-independent digests of rows (R4): equal digests mean equal multisets of rows."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

MODULUS = 1 << 128


def of_rows(rows: Iterable[bytes]) -> str:
    """Sum modulo 2^128 of the 128-bit BLAKE2b of every row, as 32 hexadecimal digits.

    A sum, not an exclusive-or: with the latter two copies of a row would vanish.
    """
    total = 0
    for row in rows:
        total += int.from_bytes(blake2b(row, digest_size=16).digest(), "little")
    return f"{total % MODULUS:032x}"


def added(digests: Iterable[str]) -> str:
    """Return the digest of the union (as multisets) of the rows behind `digests`."""
    return f"{sum(int(digest, 16) for digest in digests) % MODULUS:032x}"


EMPTY = of_rows(())
