"""The catalog: which ids are live in one shard, and which rows of an epoch are new."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from effectively_once import long_texts
from effectively_once.errors import SourceError
from effectively_once.ledger.hashes import U64, of_ids
from effectively_once.state.catalog import keys
from effectively_once.state.catalog.bloom import Probe
from effectively_once.state.catalog.bucket import Bucket, Folded
from effectively_once.state.catalog.buckets import BUCKET_MS, NONE_CLOSED, Buckets
from effectively_once.state.catalog.counters import Counters
from effectively_once.state.catalog.ids import as_bytes
from effectively_once.state.lateness import Windows

KIND = "ids"
SCHEMA = pa.schema([("id", pa.string()), ("event_time_ms", pa.int64())])
BUCKETS_MAX = 64
"""So many buckets have memory of their own; ids of all others share one, as each bucket is asked for each id.

Where time goes on as it should there are 18. There are more when a backfill spreads event times, or some lie far ahead.
"""
Flags = NDArray[np.bool_]


class Catalog:
    """Ids that are live in one shard.

    State before epoch N is the fold of the `ids` deltas of epochs < N. An id is live until its window is closed: a copy
    that comes later is late by its own event time, which is fixed with the id at its first send (R6), and never gets
    here. Memory is freed by the bucket, with its last window; where many buckets share one, when most of it is closed.
    Until then closed ids are there but not seen: a decision must not depend on which deltas below the floor a worker
    happens to have folded.

    Args:
        windows: the windows of the pipeline.
        bucket_ms: length of a bucket, in ms of system time.
        hash_of: gives the 64-bit hash of each id of an array of type binary, the same in every process.

    Attributes:
        counters: what the last `decide` and the last `expire` came to.

    """

    def __init__(
        self, windows: Windows, bucket_ms: int = BUCKET_MS, hash_of: Callable[[pa.Array], U64] = of_ids
    ) -> None:
        self._divided = Buckets.of(windows, bucket_ms)
        self._hash_of = hash_of
        self._buckets: dict[int, Bucket] = {}
        self._watermark_ms: int | None = None
        # Of all time: its windows are counted from 1970.
        self._shared = Bucket(NONE_CLOSED)
        self.counters = Counters()

    def fold(self, delta: pa.Table, hashes: U64 | None = None) -> None:
        """Add the ids of one epoch's delta, each of which was new.

        Args:
            delta: columns `id` (text or bytes) and `event_time_ms`.
            hashes: what `hash_of` gives for the ids, where it is known.

        Raises:
            SourceError: a row has no id or no time, or ids are neither text nor bytes.

        """
        ids, times = as_bytes(delta["id"]), delta["event_time_ms"]
        if times.null_count:
            raise SourceError(
                f"{times.null_count} of {len(ids)} rows have no time",
                "column event_time_ms",
                "Give such rows a reason in the job's transform: they belong to the dead-letter sink.",
            )
        hashes, first = self._hashes(ids, hashes), 0
        live = times.to_numpy() // self._divided.windows.length_ms >= self._divided.first_open(self._watermark_ms)
        if not live.all():
            # Where windows are longer than those of ids, deltas live on whose ids are all closed.
            ids, times, hashes = ids.filter(pa.array(live)), times.filter(pa.array(live)), hashes[live]
        # What is kept are arrays that others can be joined to.
        for part in long_texts.divide(pa.chunked_array([ids]), pa.binary()).iterchunks():
            last = first + len(part)
            self._fold(part, times.slice(first, len(part)), hashes[first:last])
            first = last

    def expire(self, watermark_ms: int | None) -> None:
        """Let the ids go whose windows `watermark_ms` closes, and a bucket's memory with its last window."""
        known = [mark for mark in (self._watermark_ms, watermark_ms) if mark is not None]
        self._watermark_ms = max(known, default=None)
        self.counters.expired = 0
        for number, bucket in list(self._buckets.items()):
            closed = self._divided.count_closed(number, self._watermark_ms)
            self.counters.expired += bucket.close(closed)
            if closed == self._divided.length:
                del self._buckets[number]
        self.counters.expired += self._shared.close(self._divided.first_open(self._watermark_ms))
        if self._shared.mostly_closed:
            self._shared = self._shared.without_closed(self._hash_of)

    def count_held(self, front_ms: int | None) -> Counter[int]:
        """Count live ids by the start of their window (ms), of windows that `front_ms` would close.

        They are kept only because somebody is behind that time.
        """
        found: Counter[int] = Counter()
        length, window_ms = self._divided.length, self._divided.windows.length_ms
        for number, bucket in self._buckets.items():
            for window, ids in bucket.by_window(self._divided.count_closed(number, front_ms)):
                found[(number * length + window) * window_ms] += ids
        for window, ids in self._shared.by_window(self._divided.first_open(front_ms)):
            found[window * window_ms] += ids
        return found

    def decide(self, ids: pa.Array | pa.ChunkedArray, hashes: U64 | None = None) -> Flags:
        """Which rows are new, in order of their source coordinates: of two copies in one epoch the first wins (R4).

        Every live bucket is asked, not only the row's own: a copy whose time was changed on the way is still a copy.
        Nothing but the counters changes.

        Args:
            ids: text or bytes, at most 16,777,216 of them.
            hashes: what `hash_of` gives for the ids, where it is known.

        Raises:
            SourceError: an id is missing, or ids are neither text nor bytes.
            ValueError: too many ids at once.

        """
        ids = as_bytes(ids)
        ordered = keys.of_hashes(self._hashes(ids, hashes))
        rows, prefixes = keys.places(ordered), keys.prefixes(ordered)
        copies = _copies(ids, rows, prefixes)
        asked, live = self._look_up(ids, rows, prefixes)
        new = np.empty(len(ids), np.bool_)
        new[rows] = ~(copies | live)
        duplicates = len(ids) - int(np.count_nonzero(new))
        wrong = int(np.count_nonzero(asked & ~(copies | live)))
        self.counters = Counters(
            looked_up=len(ids),
            surely_new=len(ids) - duplicates - wrong,
            false_positives=wrong,
            duplicates=duplicates,
            expired=self.counters.expired,
        )
        return new

    def settle(self) -> None:
        """Sort what was folded since; `decide` sees to it by itself."""
        for bucket in self._every():
            bucket.settle()

    def summary(self) -> dict[str, int]:
        """Return the counters, the number of live ids and the bytes they take."""
        return {**asdict(self.counters), "live": len(self), "bytes": sum(b.bytes_ for b in self._every())}

    def __len__(self) -> int:
        """Live ids."""
        return sum(map(len, self._every()))

    def _fold(self, ids: pa.Array, times: pa.ChunkedArray, hashes: U64) -> None:
        numbers, windows = self._divided.place(times.to_numpy())
        folded = Folded(hashes, ids, windows)
        touched = _distinct(numbers)
        if len(self._buckets.keys() | touched) > BUCKETS_MAX:
            touched = self._with_room(numbers)
            apart = ~np.isin(numbers, touched)
            self._shared.add(Folded(hashes, ids, numbers * self._divided.length + windows).where(apart))
        else:
            self._shared.rest()
        for number in touched:
            closed = self._divided.count_closed(number, self._watermark_ms)
            self._buckets.setdefault(number, Bucket(closed)).add(folded.where(numbers == number))
        for number in self._buckets.keys() - touched:
            self._buckets[number].rest()

    def _with_room(self, numbers: NDArray[np.int64]) -> list[int]:
        """Which buckets that a delta touches have memory of their own: those that had, and the fullest others."""
        found, counts = np.unique(numbers, return_counts=True)
        fullest = found[np.argsort(-counts, kind="stable")].tolist()
        room = BUCKETS_MAX - len(self._buckets)
        return [n for n in fullest if n in self._buckets] + [n for n in fullest if n not in self._buckets][:room]

    def _every(self) -> list[Bucket]:
        return [*self._buckets.values(), *([self._shared] if len(self._shared) else [])]

    def _hashes(self, ids: pa.Array, given: U64 | None) -> U64:
        if given is None:
            return self._hash_of(ids)
        if len(given) != len(ids):
            raise ValueError(f"{len(given)} hashes of {len(ids)} ids")
        return given

    def _look_up(self, ids: pa.Array, rows: NDArray[np.int64], prefixes: U64) -> tuple[Flags, Flags]:
        """Which of some rows, sorted by hash, a filter did not say no to, and which of these are live."""
        self.settle()
        asked, live = np.zeros(len(rows), np.bool_), np.zeros(len(rows), np.bool_)
        probe = Probe.of(prefixes)
        found: list[pa.Array] = []
        for bucket in self._every():
            maybe = bucket.maybe(probe)
            asked[maybe] = True
            found += bucket.find(prefixes[maybe])
        if found:
            # Equal bytes make a duplicate, not equal hashes.
            asked_for = pa.chunked_array([keys.take(ids, rows[asked])]).cast(pa.large_binary())
            there = pa.chunked_array(found).cast(pa.large_binary()).combine_chunks()
            equal = pc.is_in(asked_for, value_set=there)
            live[asked] = equal.to_numpy(zero_copy_only=False)
        return asked, live


def _copies(ids: pa.Array, rows: NDArray[np.int64], prefixes: U64) -> Flags:
    """Which of some rows, sorted by hash, have an id that an earlier row of the same epoch has."""
    copies = np.zeros(len(rows), np.bool_)
    alike = prefixes[1:] == prefixes[:-1]
    if alike.any():
        some = np.append(alike, False) | np.append(False, alike)
        codes = keys.take(ids, rows[some]).dictionary_encode().indices.to_numpy()
        # An id's code is a new maximum where the id appears first.
        copies[some] = np.diff(np.maximum.accumulate(codes), prepend=-1) == 0
    return copies


def _distinct(numbers: NDArray[np.int64]) -> list[int]:
    """Distinct numbers; mostly there is one, and that takes no sorting to tell."""
    if len(numbers) and numbers.min() == numbers.max():
        return [int(numbers[0])]
    return [int(number) for number in np.unique(numbers)]


def canonical(delta: pa.Table) -> pa.Table:
    """Return the columns that the rows of a delta are digested by: the id and its time."""
    return delta.select(SCHEMA.names)
