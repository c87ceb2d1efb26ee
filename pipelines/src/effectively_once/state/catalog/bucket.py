"""One bucket: the ids of a range of system time, a filter in front of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from effectively_once.ledger.hashes import U64
from effectively_once.state.catalog import keys
from effectively_once.state.catalog.bloom import Filter, Probe
from effectively_once.state.catalog.buckets import Ordinals
from effectively_once.state.catalog.index import Index
from effectively_once.state.catalog.runs import RUN_BYTES, RUN_IDS, Run, Runs

QUIET_DELTAS = 8
"""After so many deltas that brought a bucket next to nothing it is taken to be full."""
QUIET_FACTOR = 32
"""The last run of a full bucket is merged with those before it unless they are so many times as large: one is left."""
HEADROOM = 1.5
"""A filter is made for so many times the ids there are: 32 to 48 bits for each."""


@dataclass(frozen=True, slots=True)
class Folded:
    """Ids as a delta brings them, with the hash of each and its window's number in the bucket."""

    hashes: U64
    ids: pa.Array
    windows: Ordinals

    def where(self, mask: NDArray[np.bool_]) -> Folded:
        """Those for which the mask is true."""
        if mask.all():
            return self
        return Folded(self.hashes[mask], self.ids.filter(pa.array(mask)), self.windows[mask])

    def slices(self, length: int) -> Iterator[Folded]:
        """Cut into parts of at most `length` ids."""
        for first in range(0, len(self), length):
            cut = slice(first, first + length)
            yield Folded(self.hashes[cut], self.ids.slice(first, length), self.windows[cut])

    @property
    def bytes_(self) -> int:
        """Size in memory."""
        return int(self.hashes.nbytes + self.ids.nbytes + self.windows.nbytes)

    def __len__(self) -> int:
        """Ids."""
        return len(self.hashes)


class Bucket:
    """Ids whose windows lie in one bucket, or in all that share one.

    Args:
        closed: number of the first of its windows that no watermark has closed.

    """

    def __init__(self, closed: int = 0) -> None:
        self._closed = closed
        self._live = self._quiet = 0
        self._folded: list[Folded] = []
        self._folded_ids = self._folded_bytes = 0
        self._runs = Runs()
        self._filter = Filter(0)

    def add(self, folded: Folded) -> None:
        """Take in ids that the bucket does not have. They are sorted when somebody asks: a rebuild sorts them once."""
        for part in folded.slices(RUN_IDS):
            if self._folded_ids + len(part) > RUN_IDS or self._folded_bytes + part.ids.nbytes > RUN_BYTES:
                self.settle()
            self._folded.append(part)
            self._folded_ids += len(part)
            self._folded_bytes += part.ids.nbytes
            self._live += self._open(part.windows)
        if QUIET_FACTOR * len(folded) < len(self._runs):
            self.rest()
        else:
            self._quiet = 0

    def rest(self) -> None:
        """Note that a delta brought nothing. Where nothing comes any more one run is quicker to look into than many."""
        self._quiet += 1
        if self._quiet == QUIET_DELTAS:
            self._quiet = 0
            self._runs.merge(QUIET_FACTOR)

    def settle(self) -> None:
        """Sort what was taken in, and let the filter know it."""
        if not self._folded:
            return
        parts, self._folded, self._folded_ids, self._folded_bytes = self._folded, [], 0, 0
        run = Run(
            Index.of(np.concatenate([part.hashes for part in parts])),
            pa.concat_arrays([part.ids for part in parts]),
            np.concatenate([part.windows for part in parts]),
        )
        self._runs.add(run)
        if len(self._runs) <= self._filter.capacity:
            self._filter.add(run.index.prefixes)
            return
        # Made anew instead of a further one beside it, which every id would be looked up in from then on.
        self._filter = Filter(int(HEADROOM * len(self._runs)))
        for each in self._runs:
            self._filter.add(each.index.prefixes)

    def maybe(self, probe: Probe) -> NDArray[np.int64]:
        """Return where in the probe the filter does not say no; what was added after `settle` it does not know."""
        return self._filter.maybe(probe)

    def find(self, prefixes: U64) -> list[pa.Array]:
        """Live ids whose hash begins with one of some sorted prefixes."""
        found = []
        once = prefixes[np.append(True, prefixes[1:] != prefixes[:-1])] if len(prefixes) else prefixes
        for run in self._runs:
            rows = run.index.rows(once)
            rows = rows[run.windows[rows] >= self._closed]
            if len(rows):
                found.append(keys.take(run.ids, rows))
        return found

    def close(self, windows: int) -> int:
        """Let the ids of the first `windows` windows go; return how many went."""
        if windows <= self._closed:
            return 0
        self._closed, before = windows, self._live
        self._live = sum(self._open(part.windows) for part in self._parts)
        return before - self._live

    def by_window(self, end: int) -> Iterator[tuple[int, int]]:
        """Count live ids by window, of the windows before number `end`; one window may come several times."""
        if end <= self._closed:
            return
        for part in self._parts:
            numbers = part.windows[(part.windows >= self._closed) & (part.windows < end)]
            yield from zip(*(each.tolist() for each in np.unique(numbers, return_counts=True)), strict=True)

    @property
    def mostly_closed(self) -> bool:
        """Whether it holds more ids that are closed than live ones."""
        return 2 * self._live < self._folded_ids + len(self._runs)

    def without_closed(self, hash_of: Callable[[pa.Array], U64]) -> Bucket:
        """Return a bucket of its live ids alone; `hash_of` gives their hashes, of which a run keeps a part."""
        fresh = Bucket(self._closed)
        for part in self._parts:
            is_open = part.windows >= self._closed
            ids = part.ids.filter(pa.array(is_open))
            if len(ids):
                fresh.add(Folded(hash_of(ids), ids, part.windows[is_open]))
        return fresh

    @property
    def bytes_(self) -> int:
        """Size in memory."""
        return self._filter.bytes_ + sum(part.bytes_ for part in self._parts)

    def __len__(self) -> int:
        """Live ids."""
        return self._live

    @property
    def _parts(self) -> list[Run | Folded]:
        return [*self._runs, *self._folded]

    def _open(self, windows: Ordinals) -> int:
        return int(np.count_nonzero(windows >= self._closed))
