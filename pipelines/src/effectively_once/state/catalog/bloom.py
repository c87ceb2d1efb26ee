"""Bloom filter over prefixes of hashes, blocked by cache line (Putze, Sanders and Singler, 2007).

A prefix belongs to one line of 64 bytes, and in it to two words of 64 bits, in each of which it sets 5 bits. Lines are
in the order of prefixes: whoever asks in that order walks through memory. The second word is looked at only where the
first one says maybe.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from effectively_once.ledger.hashes import U64, mix
from effectively_once.state.catalog.keys import PREFIX_BITS

BITS_PER_ID = 32
"""Bits for each id of a full filter: 3 false positives in 100,000, so that 18 buckets stay below 0.1 % together."""
_WORDS_PER_LINE = 8
_LINES_MAX = (1 << 64 - PREFIX_BITS) - 1  # what a prefix can be multiplied with

_SLICE = 1 << 15
"""So many prefixes are taken in at once: intermediate arrays stay in the processor's cache (16 ns each, not 27)."""
_MASKS = 4096


def _masks() -> U64:
    """Words with 5 of 64 bits set: drawing one out of so many adds 1 false positive in a million."""
    bits = np.random.default_rng(0).permuted(np.tile(np.arange(64, dtype=np.uint64), (_MASKS, 1)), axis=1)[:, :5]
    masks: U64 = np.bitwise_or.reduce(np.uint64(1) << bits, axis=1)
    return masks


_TABLE = _masks()


@dataclass(frozen=True, slots=True)
class Probe:
    """What filters of any size need to know of some prefixes, computed once for all of them.

    Attributes:
        prefixes: the prefixes, sorted.
        word: number of the first word in its line.
        flip: word ^ flip is the second one's number.
        first: the bits in the first word.
        second: the bits in the second word.

    """

    prefixes: U64
    word: U64
    flip: U64
    first: U64
    second: U64

    @classmethod
    def of(cls, prefixes: U64) -> Probe:
        """Return the probe of sorted prefixes."""
        drawn = mix(prefixes.copy())
        return cls(
            prefixes,
            word=drawn & np.uint64(7),
            flip=(drawn >> np.uint64(3)) & np.uint64(3) | np.uint64(4),
            first=_TABLE.take((drawn >> np.uint64(8)) & np.uint64(_MASKS - 1), mode="wrap"),
            second=_TABLE.take((drawn >> np.uint64(20)) & np.uint64(_MASKS - 1), mode="wrap"),
        )


class Filter:
    """A filter for `capacity` ids; with more of them it says maybe more often, and is never wrong when it says no."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        lines = min(_LINES_MAX, capacity * BITS_PER_ID // (64 * _WORDS_PER_LINE) + 1)
        self._lines = np.uint64(lines)
        self._words = np.zeros(lines * _WORDS_PER_LINE, np.uint64)

    def add(self, prefixes: U64) -> None:
        """Take sorted prefixes in."""
        for first in range(0, len(prefixes), _SLICE):
            probe = Probe.of(prefixes[first : first + _SLICE])
            at = self._at(probe)
            np.bitwise_or.at(self._words, at, probe.first)
            np.bitwise_or.at(self._words, at ^ probe.flip, probe.second)

    def maybe(self, probe: Probe) -> NDArray[np.int64]:
        """Return where in the probe a prefix may be one that was taken in; at all other places it certainly is not."""
        at = self._at(probe)
        some = np.flatnonzero((self._words.take(at, mode="wrap") & probe.first) == probe.first)
        bits = probe.second[some]
        left: NDArray[np.int64] = some[(self._words[at[some] ^ probe.flip[some]] & bits) == bits]
        return left

    @property
    def bytes_(self) -> int:
        """Size in memory."""
        return int(self._words.nbytes)

    def _at(self, probe: Probe) -> U64:
        """Number of each prefix's first word in the whole filter."""
        line = (probe.prefixes * self._lines) >> np.uint64(PREFIX_BITS)
        return (line << np.uint64(3)) | probe.word
