"""Runs of ids, sorted by hash and merged geometrically (O'Neil et al., The Log-Structured Merge-Tree, 1996).

Only the keys of a run are sorted. The ids stay in the order they came, which a key's place tells, so that a merge sorts
numbers and copies bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from effectively_once.state.catalog.buckets import Ordinals
from effectively_once.state.catalog.index import Index

RUN_IDS = 1 << 22
"""A run does not grow beyond this many ids by merging: it bounds the pause and the memory of a merge (0.1 s)."""
RUN_BYTES = 1 << 30
"""Nor beyond this many bytes of ids: an Arrow array of type binary ends at 2 GiB."""
FACTOR = 3
"""A run is merged with the one before it unless that one is so many times as large: each id is merged 5 to 7 times."""


@dataclass(frozen=True, slots=True)
class Run:
    """Some ids of one bucket.

    Attributes:
        index: finds rows of `ids` by hash.
        ids: the ids, of type binary.
        windows: number of the window in its bucket, for each row of `ids`.

    """

    index: Index
    ids: pa.Array
    windows: Ordinals

    def __len__(self) -> int:
        """Ids."""
        return len(self.index)

    @property
    def bytes_(self) -> int:
        """Size in memory."""
        return int(self.index.bytes_ + self.ids.nbytes + self.windows.nbytes)


class Runs:
    """The runs of one bucket, large ones first."""

    def __init__(self) -> None:
        self._runs: list[Run] = []

    def __len__(self) -> int:
        """Ids."""
        return sum(map(len, self._runs))

    def __iter__(self) -> Iterator[Run]:
        """Each run."""
        return iter(self._runs)

    def add(self, run: Run) -> None:
        """Take a run in, and merge it with those before it that are not much larger."""
        self._runs.append(run)
        self.merge(FACTOR)

    def merge(self, factor: int) -> None:
        """Merge the last run with those before it, up to one that is `factor` times as large as all after it."""
        first = self._first_to_merge(factor)
        if first < len(self._runs) - 1:
            self._runs[first:] = [_merge(self._runs[first:])]

    def _first_to_merge(self, factor: int) -> int:
        first = max(0, len(self._runs) - 1)
        if not first:
            return first
        rows, size = len(self._runs[first]), self._runs[first].ids.nbytes
        for before in reversed(self._runs[:-1]):
            rows_then, size_then = rows + len(before), size + before.ids.nbytes
            if len(before) >= factor * rows or rows_then > RUN_IDS or size_then > RUN_BYTES:
                break
            first, rows, size = first - 1, rows_then, size_then
        return first


def _merge(runs: Sequence[Run]) -> Run:
    ids, windows = pa.concat_arrays([run.ids for run in runs]), np.concatenate([run.windows for run in runs])
    return Run(Index.merge([run.index for run in runs]), ids, windows)
