"""Up to where everything is stored: what a successor of the aggregator need not read again."""

from __future__ import annotations

from effectively_once_jobs.fraud.transaction import Place


class Outstanding:
    """Places that are read and not stored, in each partition in the order in which they were read."""

    def __init__(self) -> None:
        self._open: dict[int, dict[int, None]] = {}
        self._next: dict[int, int] = {}

    def __len__(self) -> int:
        """All of them."""
        return sum(map(len, self._open.values()))

    def note_read(self, place: Place) -> None:
        """Take note of a record that was read."""
        partition, offset = place
        self._open.setdefault(partition, {})[offset] = None
        self._next[partition] = offset + 1

    def note_stored(self, place: Place) -> None:
        """Take note that what becomes of it is stored."""
        partition, offset = place
        self._open[partition].pop(offset, None)

    def offsets(self) -> dict[int, int]:
        """Partition -> first offset that is not stored, or the next one to be read."""
        return {partition: next(iter(self._open[partition]), end) for partition, end in self._next.items()}
