"""Sorted keys with a directory: where each range of hashes begins, so that a look-up costs the same at any size."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effectively_once.ledger.hashes import U64
from effectively_once.state.catalog import keys

Rows = NDArray[np.signedinteger[Any]]

_KEYS_PER_CELL = 8
"""At least half as many on average: the directory takes at most a byte for each."""
_SLICE = 1 << 16
"""So many keys are counted at once: intermediate arrays stay in the processor's cache."""
_CELL_MAX = 64
"""Chance does not fill a cell so far. Where something else does, keys are searched for instead of passed over."""


class Index:
    """Rows of ids by hash."""

    def __init__(self, sorted_keys: U64) -> None:
        self._keys = sorted_keys
        bits = max(1, (len(sorted_keys) // _KEYS_PER_CELL).bit_length())
        self._shift = np.uint64(64 - bits)
        counts = np.zeros(1 << bits, np.int32)
        for first in range(0, len(sorted_keys), _SLICE):
            cells = (sorted_keys[first : first + _SLICE] >> self._shift).astype(np.int64)
            counts[cells[0] : cells[-1] + 1] += np.bincount(cells - cells[0])
        self._starts = np.zeros(len(counts) + 1, np.int32)
        np.cumsum(counts, out=self._starts[1:])
        self._widest = int(counts.max())

    @classmethod
    def of(cls, hashes: U64) -> Index:
        """Index of rows 0, 1, 2, ... with these hashes."""
        return cls(keys.of_hashes(hashes))

    @classmethod
    def merge(cls, parts: Sequence[Index]) -> Index:
        """Index of the rows of several, one after the other."""
        together = np.concatenate([part._keys for part in parts])
        for begin, end in pairwise(accumulate(map(len, parts), initial=0)):
            together[begin:end] += np.uint64(begin)
        together.sort()
        return cls(together)

    @property
    def prefixes(self) -> U64:
        """Upper 40 bits of the hashes, sorted."""
        return keys.prefixes(self._keys)

    def rows(self, prefixes: U64) -> NDArray[np.int64]:
        """Row numbers of all hashes that begin with one of some sorted and distinct prefixes."""
        first, last = self._around(prefixes)
        counts = last - first
        ends = np.cumsum(counts)
        near = self._keys[np.repeat(last - ends, counts) + np.arange(counts.sum())]
        return keys.places(near[keys.prefixes(near) == np.repeat(prefixes, counts)])

    @property
    def bytes_(self) -> int:
        """Size in memory."""
        return int(self._keys.nbytes + self._starts.nbytes)

    def __len__(self) -> int:
        """Rows."""
        return len(self._keys)

    def _around(self, prefixes: U64) -> tuple[Rows, Rows]:
        """Bounds between which all keys of each prefix lie, and not many others."""
        low, high = keys.bounds(prefixes)
        if self._widest > _CELL_MAX:
            return np.searchsorted(self._keys, low), np.searchsorted(self._keys, high, side="right")
        cells = (low >> self._shift).astype(np.int64)
        return self._starts[cells], self._starts[cells + 1]
