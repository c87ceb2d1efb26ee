"""The order-independent digest of a set of rows, written down a second time and independently of the pipeline."""

from __future__ import annotations

from collections.abc import Iterable

_BITS = (1 << 64) - 1
_PLACE, _FIRST, _SECOND, _LANE = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93


def digest(rows: Iterable[bytes]) -> str:
    """Digest rows that are bytes."""
    return _summed(map(_hash, rows))


def of_tables(rows: Iterable[tuple[bytes | int, ...]]) -> str:
    """Digest rows of several columns: text as UTF-8, numbers of 64 bits."""
    return _summed(map(_hash_of_row, rows))


def _summed(hashes: Iterable[int]) -> str:
    """32 hex digits: two sums modulo 2^64 over the rows, of a second hash of each and of its first one."""
    first = second = 0
    for hashed in hashes:
        first += hashed
        second += _mixed(hashed ^ _LANE)
    return f"{second & _BITS:016x}{first & _BITS:016x}"


def add(digests: Iterable[str]) -> str:
    """Return the digest of the union of disjoint sets of rows, from their digests.

    Raises:
        ValueError: a digest is not 32 hexadecimal digits.

    """
    first = second = 0
    for text in digests:
        if len(text) != 32 or not set(text) <= set("0123456789abcdef"):
            raise ValueError(f"digest is not 32 hex digits: {text!r}")
        second, first = second + int(text[:16], 16), first + int(text[16:], 16)
    return f"{second & _BITS:016x}{first & _BITS:016x}"


def _hash(row: bytes) -> int:
    """Words of eight bytes, each mixed with its place, and the number of bytes, added up and mixed again."""
    total = len(row) * _PLACE
    for number, at in enumerate(range(0, max(len(row), 1), 8), start=1):
        x = (int.from_bytes(row[at : at + 8], "little") + number * _PLACE) & _BITS
        x = ((x ^ x >> 32) * _FIRST) & _BITS
        total += (x ^ x >> 29) * _SECOND
    return _mixed(total & _BITS)


def _hash_of_row(row: tuple[bytes | int, ...]) -> int:
    """Values, each mixed with the place of its column, added up and mixed again."""
    total = 0
    for place, value in enumerate(row, start=1):
        hashed = _hash(value) if isinstance(value, bytes) else value & _BITS
        total += _mixed((hashed + place * _PLACE) & _BITS)
    return _mixed(total & _BITS)


def _mixed(x: int) -> int:
    x = ((x ^ x >> 30) * _FIRST) & _BITS
    x = ((x ^ x >> 27) * _SECOND) & _BITS
    return x ^ x >> 31
