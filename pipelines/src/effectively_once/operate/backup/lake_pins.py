"""What a backup keeps of lake tables: under a tag of its own, the snapshot of the epoch that its head recorded last.

Nothing of them is copied, as nothing of the other tables is. With the snapshot a restore can set a table back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING

from effectively_once.epoch.publishing import open_lake_table
from effectively_once.ledger.head import Head
from effectively_once.ledger.objects import ObjectStore
from effectively_once.pipeline.job import Job

if TYPE_CHECKING:
    from effectively_once.sinks.iceberg import IcebergSink


class LakePins:
    """Tags in the lake tables of a pipeline, those of backups. Everything raises as `sinks.lake_pins` does.

    Args:
        job: its pipeline.
        store: its bucket.
        say: is told what is done.

    """

    def __init__(self, job: Job, store: ObjectStore, say: Callable[[str], object] = lambda _: None) -> None:
        self._job, self._store, self._say = job, store, say
        self._taken_ms: int | None = None

    def pin(self, head: Head, taken_ms: int) -> None:
        """Keep what a backup of this head needs, and no more what it had pinned for an earlier one."""
        former, self._taken_ms = self._taken_ms, taken_ms
        for pins, sink in self._tables():
            if former is not None:
                pins.unpin(sink, tag_of(former))
            if head.last_recorded >= 0 and not pins.pin(sink, head.last_recorded, tag_of(taken_ms)):
                self._say(f"{sink.address} has no snapshot of epoch {head.last_recorded}: it cannot be set back to it")

    def unpin(self, taken_ms: int) -> None:
        """Let go what a backup had pinned, which is deleted."""
        for pins, sink in self._tables():
            pins.unpin(sink, tag_of(taken_ms))

    def set_back(self, head: Head, taken_ms: int) -> None:
        """Make lake tables what they were at a backup: before their first epoch they are left to the start check."""
        for pins, sink in self._tables():
            if head.last_recorded >= 0 and pins.set_back(sink, tag_of(taken_ms)):
                self._say(f"{sink.address} is set back to epoch {head.last_recorded}")

    def _tables(self) -> Iterator[tuple[ModuleType, IcebergSink]]:
        """Each one, and what works on it: the library of that is an extra, which other pipelines do without."""
        for name in self._job.pipeline.lake_tables:
            sink = open_lake_table(self._job, self._store, name)
            from effectively_once.sinks import lake_pins  # noqa: PLC0415 - see above

            yield lake_pins, sink


def tag_of(taken_ms: int) -> str:
    """Name the tag of a backup, by when its head was read."""
    return f"effectively_once_backup_{taken_ms}"
