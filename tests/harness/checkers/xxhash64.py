"""xxHash64 in plain Python: which shard a row belongs to, told without Spark, which has it as `xxhash64`.

Written from the algorithm's specification, and shares nothing with the pipeline, where Spark computes it.
"""

from __future__ import annotations

from functools import lru_cache

_BITS = (1 << 64) - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_STRIPE = 32
SPARK_SEED = 42
"""What Spark's SQL function begins with."""


def xxhash64(content: bytes, seed: int = SPARK_SEED) -> int:
    """Hash bytes: a number from 0 to 2^64 - 1. Spark shows the same 64 bits as a signed number."""
    at, size = 0, len(content)
    x = (seed + _P5) & _BITS
    if size >= _STRIPE:
        lanes = [(seed + _P1 + _P2) & _BITS, (seed + _P2) & _BITS, seed, (seed - _P1) & _BITS]
        while at + _STRIPE <= size:
            for number in range(4):
                lanes[number] = _round(lanes[number], _word(content, at + 8 * number, 8))
            at += _STRIPE
        x = sum(_rotate(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & _BITS
        for lane in lanes:
            x = ((x ^ _round(0, lane)) * _P1 + _P4) & _BITS
    x = (x + size) & _BITS
    while at + 8 <= size:
        x = (_rotate(x ^ _round(0, _word(content, at, 8)), 27) * _P1 + _P4) & _BITS
        at += 8
    if at + 4 <= size:
        x = (_rotate(x ^ (_word(content, at, 4) * _P1 & _BITS), 23) * _P2 + _P3) & _BITS
        at += 4
    for byte in content[at:]:
        x = _rotate(x ^ (byte * _P5 & _BITS), 11) * _P1 & _BITS
    x = ((x ^ x >> 33) * _P2) & _BITS
    x = ((x ^ x >> 29) * _P3) & _BITS
    return x ^ x >> 32


@lru_cache(maxsize=100_000)
def shard_of(text: str, shards: int) -> int:
    """Which of some shards a text belongs to: `pmod(xxhash64(text), shards)` of Spark, of the signed number."""
    hashed = xxhash64(text.encode("utf-8", "surrogatepass"))
    return (hashed - (1 << 64) if hashed >> 63 else hashed) % shards


def _word(content: bytes, at: int, size: int) -> int:
    return int.from_bytes(content[at : at + size], "little")


def _round(lane: int, word: int) -> int:
    return _rotate((lane + word * _P2) & _BITS, 31) * _P1 & _BITS


def _rotate(x: int, by: int) -> int:
    return (x << by | x >> (64 - by)) & _BITS
