"""The source's buffer (S10): keeps every event until it is acknowledged, and gives failed ones out again.

Pure. An event is known by its place, partition and offset. What failed is given out before what is new, so it comes
after events that were behind it: the order of the source is lost, which is what a replay from a buffer does.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Content = TypeVar("Content")
Place = tuple[int, int]
"""Partition and offset."""


@dataclass
class SourceBuffer(Generic[Content]):
    """Events between their arrival and their acknowledgement.

    `next_offsets` is where each partition is read on; below it an offset is either kept here or done with.
    """

    next_offsets: dict[int, int] = field(default_factory=dict)
    replayed: int = 0
    _kept: dict[int, OrderedDict[int, Content]] = field(default_factory=dict)
    _failed: OrderedDict[Place, None] = field(default_factory=OrderedDict)
    _new: OrderedDict[Place, None] = field(default_factory=OrderedDict)

    def __len__(self) -> int:
        """How many are not acknowledged."""
        return sum(map(len, self._kept.values()))

    def take_in(self, place: Place, content: Content) -> None:
        """Take in an event. Raises ValueError for an offset that is not beyond those of before."""
        partition, offset = place
        if offset < self.next_offsets.get(partition, 0):
            raise ValueError(f"offset {offset} of partition {partition} has arrived before")
        self._kept.setdefault(partition, OrderedDict())[offset] = content
        self._new[place] = None
        self.next_offsets[partition] = offset + 1

    def give_out(self, most: int) -> list[tuple[Place, Content]]:
        """Give out events that are not under way: failed ones, the first to fail first, then new ones."""
        found: list[Place] = []
        for waiting in (self._failed, self._new):
            while waiting and len(found) < most:
                place, _ = waiting.popitem(last=False)
                found.append(place)
                self.replayed += waiting is self._failed
        return [(place, self._kept[place[0]][place[1]]) for place in found]

    def acknowledge(self, place: Place) -> None:
        """Forget an event that has come through. One that is not here is done with already."""
        self._kept.get(place[0], OrderedDict()).pop(place[1], None)
        self._failed.pop(place, None)

    def keep_failed(self, place: Place) -> None:
        """Keep an event for a replay."""
        if place[1] in self._kept.get(place[0], {}):
            self._failed[place] = None

    def offsets_to_commit(self) -> Mapping[int, int]:
        """Where a successor has to begin: by partition, the lowest offset that is not acknowledged."""
        return {
            partition: next(iter(self._kept.get(partition) or ()), end) for partition, end in self.next_offsets.items()
        }
