"""Whole numbers as bytes: small ones, of either sign, take one (zigzag and LEB128)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

LIMIT = 1 << 62
"""Numbers are smaller in magnitude, so that the difference of two has 64 bits."""
_LONGEST = 10


def encode(numbers: Sequence[int]) -> bytes:
    """Encode numbers of 64 bits; raises OverflowError for a larger one."""
    signed = np.array(numbers, dtype=np.int64)
    left = (signed.astype(np.uint64) << np.uint64(1)) ^ (signed >> np.int64(63)).astype(np.uint64)
    groups = np.zeros((_LONGEST, left.size), dtype=np.uint8)
    used = np.zeros((_LONGEST, left.size), dtype=bool)
    for place in range(_LONGEST):
        used[place] = left > 0 if place else True
        groups[place] = (left & np.uint64(0x7F)).astype(np.uint8)
        left >>= np.uint64(7)
    groups[:-1][used[1:]] |= 0x80
    encoded: bytes = groups.T[used.T].tobytes()
    return encoded


def decode(content: bytes) -> list[int]:
    """Decode what `encode` gave; raises ValueError where it is none of it."""
    groups = np.frombuffer(content, dtype=np.uint8)
    if not groups.size:
        return []
    last = np.flatnonzero(groups < 0x80)
    if not last.size or last[-1] != groups.size - 1:
        raise ValueError("the last number is cut")
    first = np.concatenate(([0], last[:-1] + 1))
    lengths = last - first + 1
    if lengths.max() > _LONGEST:
        raise ValueError(f"a number of {lengths.max()} bytes")
    places = np.arange(groups.size) - np.repeat(first, lengths)
    parts = (groups & 0x7F).astype(np.uint64) << (places * 7).astype(np.uint64)
    zigzag = np.bitwise_or.reduceat(parts, first)
    signs = -(zigzag & np.uint64(1)).astype(np.int64)
    decoded: list[int] = ((zigzag >> np.uint64(1)).astype(np.int64) ^ signs).tolist()
    return decoded
