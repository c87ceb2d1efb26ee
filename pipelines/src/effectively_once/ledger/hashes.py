"""64-bit hashes of ids, the same in every process, run and machine.

Each word of eight bytes is mixed with its place in the id, the words of an id are added up, and the sum is mixed
again (finalizer of MurmurHash3, in the variant of SplitMix64). Ids of two words that vary collide more often than by
chance (docs/adr/0042). Nobody decides by these hashes: what collisions of ids cost is a slower look-up.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

U64 = NDArray[np.uint64]

_SLICE_BYTES = 1 << 18
"""Ids are hashed in slices of about this size: intermediate arrays stay in the processor's cache (2 to 3 times)."""
_WORD = 8
PLACE, _FIRST, _SECOND = (np.uint64(c) for c in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_KEPT = np.array([(1 << 8 * size) - 1 for size in range(_WORD + 1)], np.uint64)
"""Masks that keep the lowest 0..8 bytes of a word."""


def of_ids(ids: pa.Array) -> U64:
    """Hash an array of type binary or large_binary without nulls: one number per id."""
    hashes = np.empty(len(ids), np.uint64)
    if not len(ids):
        return hashes
    _, offsets, data = ids.buffers()
    width = np.int64 if pa.types.is_large_binary(ids.type) else np.int32
    bounds = np.frombuffer(offsets, width)[ids.offset : ids.offset + len(ids) + 1].astype(np.int64)
    content = np.frombuffer(data if data is not None else b"", np.uint8)
    step = max(1, _SLICE_BYTES * len(ids) // int(bounds[-1] - bounds[0] + _WORD * len(ids)))
    for first in range(0, len(ids), step):
        part = bounds[first : first + step + 1]
        hashes[first : first + step] = _hash(content[part[0] : part[-1]], part - part[0])
    return hashes


def _hash(content: NDArray[np.uint8], bounds: NDArray[np.int64]) -> U64:
    sizes = np.diff(bounds)
    size = int(sizes[0])
    sums = _even(content, len(sizes), size) if size and (sizes == size).all() else _ragged(content, bounds, sizes)
    sums += sizes.astype(np.uint64) * PLACE
    return mix(sums)


def _even(content: NDArray[np.uint8], rows: int, size: int) -> U64:
    """Sum of the words of ids that are all of one size, as they are when they are UUIDs, digests or 16 bytes."""
    padded = np.zeros((rows, -(-size // _WORD) * _WORD), np.uint8)
    padded[:, :size] = content.reshape(rows, size)
    words = padded.view("<u8")
    sums: U64 = _mix_place(words, np.arange(words.shape[1], dtype=np.uint64)).sum(axis=1)
    return sums


def _ragged(content: NDArray[np.uint8], bounds: NDArray[np.int64], sizes: NDArray[np.int64]) -> U64:
    """Sum of the words of ids of any sizes; an empty id has one word, of no bytes."""
    padded = np.concatenate([content, np.zeros(_WORD, np.uint8)])
    # Every byte begins a word: that words overlap and are not aligned costs nothing here.
    begun: NDArray[Any] = np.ndarray((len(content) + 1,), "<u8", padded, strides=(1,))
    counts = np.maximum(-(-sizes // _WORD), 1)
    ends = np.cumsum(counts)
    starts = ends - counts
    places = np.arange(ends[-1]) - np.repeat(starts, counts)
    words = begun[np.repeat(bounds[:-1], counts) + _WORD * places]
    words[ends - 1] &= _KEPT[sizes - _WORD * (counts - 1)]
    sums: U64 = np.add.reduceat(_mix_place(words, places.astype(np.uint64)), starts)
    return sums


def _mix_place(words: NDArray[Any], places: U64) -> U64:
    """Words mixed with their place in the id, so that the order of words counts."""
    x: U64 = words + (places + np.uint64(1)) * PLACE
    x ^= x >> np.uint64(32)
    x *= _FIRST
    x ^= x >> np.uint64(29)
    x *= _SECOND
    return x


def mix(x: U64) -> U64:
    """Finalizer: every bit of the result depends on every bit of the argument. Changes its argument."""
    x ^= x >> np.uint64(30)
    x *= _FIRST
    x ^= x >> np.uint64(27)
    x *= _SECOND
    x ^= x >> np.uint64(31)
    return x
