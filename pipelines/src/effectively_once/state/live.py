"""What state is folded from: which deltas and spans live, from which epoch on, and which can go (R5, R9)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.ledger.layout import Layout
from effectively_once.state import merge
from effectively_once.state.deltas import Named
from effectively_once.state.lateness import Windows

PACE = 2
"""Merged deltas that are deleted at each declaration, for each kind and shard: one more than an epoch adds.

All 64 at once would hold one epoch in 64 up by as many requests."""
RECENT = merge.FAN
"""A former driver has deleted what was merged so many epochs ago, or was killed doing so."""


class LiveDeltas:
    """Deltas and spans from the floor on, as the chain names them; nothing is found by listing.

    Args:
        layout: names of the objects.
        windows: those of every length that the pipeline has.
        records: all epoch records from the floor on, and maybe some before it; oldest first.
        floor: the one in head.

    Raises:
        ChainError: spans of the chain contradict each other; so does `add`.

    """

    def __init__(self, layout: Layout, windows: Iterable[Windows], records: Iterable[EpochRecord], floor: int) -> None:
        self._layout, self._windows = layout, (*windows,)
        self._latest: deque[tuple[int, int | None]] = deque()
        self._named: dict[merge.Where, list[Named]] = {}
        self._merged: deque[str] = deque()
        read = list(records)
        for record in read[:-RECENT]:
            self.add(record)
        self._merged.clear()
        for record in read[-RECENT:]:
            self.add(record)
        for where in self._named:
            self._below(where, floor)

    def add(self, record: EpochRecord) -> None:
        """Take in an epoch that was published: from the next one on its spans stand for their parts."""
        self._latest.append((record.epoch, record.max_event_time_ms))
        for (kind, shard), part in merge.take_in(self._named, record):
            key = part.key(self._layout, kind, shard)
            if key is not None:
                self._merged.append(key)

    def list_named(self) -> dict[str, dict[int, list[Named]]]:
        """Name what lives by kind and shard, oldest first, as executors are told of it; empty deltas too."""
        named: dict[str, dict[int, list[Named]]] = {}
        for (kind, shard), entries in self._named.items():
            if entries:
                named.setdefault(kind, {})[shard] = list(entries)
        return named

    def floor(self, declaration: Declaration) -> int:
        """Find the oldest epoch whose deltas matter: older ones hold only windows that are final and recorded."""
        for epoch, latest in self._latest:
            if latest is None:
                continue
            watermark_ms = declaration.previous_watermark_ms
            if not all(windows.closed(windows.start(latest), watermark_ms) for windows in self._windows):
                return epoch
        return declaration.epoch

    def take_out(self, floor: int) -> list[str]:
        """Name what may be deleted: what ends below the floor, and some of the deltas that were merged (R9).

        To be called when head holds the floor and records every epoch that was added. A span that the floor divides
        stays whole. Each name is given once: what nobody deletes, nobody reads.
        """
        while self._latest and self._latest[0][0] < floor:
            self._latest.popleft()
        keys = [entry.key(self._layout, *where) for where in self._named for entry in self._below(where, floor)]
        merged = [self._merged.popleft() for _ in range(min(len(self._merged), PACE * len(self._named)))]
        return [key for key in (*keys, *merged) if key is not None]

    def _below(self, where: merge.Where, floor: int) -> list[Named]:
        """Take out the entries that end below the floor."""
        entries = self._named[where]
        below = [entry for entry in entries if entry.epoch < floor]
        del entries[: len(below)]
        return below
