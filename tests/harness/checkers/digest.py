"""The order-independent digest of a set of rows, written down a second time and independently of the pipeline.

Runs recorded before docs/adr/0042 have digests of another form, without `xxh3:`; both are judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from struct import pack

from xxhash import xxh3_128_intdigest

EMPTY = "0" * 32
_FORM = "xxh3:"
_BITS = (1 << 64) - 1
_PLACE, _FIRST, _SECOND, _LANE = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93


def digest(rows: Iterable[bytes], like: str = EMPTY) -> str:
    """Digest rows that are bytes, in the form of the digest `like`."""
    return _former(map(_hash, rows)) if _is_former(like) else _sum(rows)


def of_tables(rows: Iterable[tuple[bytes | int, ...]], like: str = EMPTY) -> str:
    """Digest rows of several columns without nulls: text as UTF-8, numbers of 64 bits."""
    return _former(map(_hash_of_row, rows)) if _is_former(like) else _sum(map(_bytes_of_row, rows))


def add(digests: Iterable[str]) -> str:
    """Return the digest of the union of disjoint sets of rows, from their digests.

    Raises:
        ValueError: a digest is not 32 hexadecimal digits, or two of them have two forms.

    """
    first = second = 0
    forms = set()
    for text in digests:
        found = re.fullmatch(rf"({_FORM}|)([0-9a-f]{{16}})([0-9a-f]{{16}})", text)
        if found is None:
            raise ValueError(f"digest is not 32 hex digits: {text!r}")
        if text != EMPTY:
            forms.add(found[1])
        first, second = first + int(found[2], 16), second + int(found[3], 16)
    if len(forms) > 1:
        raise ValueError("digests have two forms, and no sum")
    return _write("".join(forms), first, second)


def _is_former(digest: str) -> bool:
    return digest != EMPTY and not digest.startswith(_FORM)


def _write(form: str, first: int, second: int) -> str:
    return f"{form}{first & _BITS:016x}{second & _BITS:016x}"


def _sum(rows: Iterable[bytes]) -> str:
    """Two sums modulo 2^64 over the rows, of both halves of their hashes; of no rows it has no form."""
    hashes = [xxh3_128_intdigest(row) for row in rows]
    first, second = sum(hashed >> 64 for hashed in hashes), sum(hashed & _BITS for hashed in hashes)
    return _write(_FORM if hashes else "", first, second)


def _bytes_of_row(row: tuple[bytes | int, ...]) -> bytes:
    """Numbers, those of texts their lengths; a zero for each column, which is no null; texts."""
    texts = [value for value in row if isinstance(value, bytes)]
    numbers = [len(value) if isinstance(value, bytes) else value for value in row]
    return pack(f"<{len(row)}q{len(row)}x", *numbers) + b"".join(texts)


def _former(hashes: Iterable[int]) -> str:
    """Two sums modulo 2^64 over the rows, of a second hash of each and of its first one."""
    first = second = 0
    for hashed in hashes:
        first += hashed
        second += _mix(hashed ^ _LANE)
    return _write("", second, first)


def _hash(row: bytes) -> int:
    """Words of eight bytes, each mixed with its place, and the number of bytes, added up and mixed again."""
    total = len(row) * _PLACE
    for number, at in enumerate(range(0, max(len(row), 1), 8), start=1):
        x = (int.from_bytes(row[at : at + 8], "little") + number * _PLACE) & _BITS
        x = ((x ^ x >> 32) * _FIRST) & _BITS
        total += (x ^ x >> 29) * _SECOND
    return _mix(total & _BITS)


def _hash_of_row(row: tuple[bytes | int, ...]) -> int:
    """Values, each mixed with the place of its column, added up and mixed again."""
    total = 0
    for place, value in enumerate(row, start=1):
        hashed = _hash(value) if isinstance(value, bytes) else value & _BITS
        total += _mix((hashed + place * _PLACE) & _BITS)
    return _mix(total & _BITS)


def _mix(x: int) -> int:
    x = ((x ^ x >> 30) * _FIRST) & _BITS
    x = ((x ^ x >> 27) * _SECOND) & _BITS
    return x ^ x >> 31
