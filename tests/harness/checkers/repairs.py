"""Epochs that leave rows of their input to the next one (docs/adr/0030, docs/adr/0076).

An operator had them finished as they are shown, or they were more than a shard takes at once. What an epoch shows, and
where a shard stopped, is taken at the word of what its record says. The rest of its input is due in the next one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Generic, TypeVar

from tests.harness.checkers import digest
from tests.harness.checkers.xxhash64 import shard_of
from tests.harness.evidence import EpochRecord, Pin

Coordinate = tuple[str, int, int]
T = TypeVar("T")


class Shares(Generic[T]):
    """Divides the records of an epoch that leaves some between it and those that take the rest.

    Args:
        pins: which rows are shown.
        named: of a record its id, where it has one, and its coordinate.
    """

    def __init__(self, pins: Iterable[Pin], named: Callable[[T], tuple[str | None, Coordinate]]) -> None:
        self._pins, self._named = frozenset(pins), named
        self._left: dict[int, list[T]] = {}

    def of(self, record: EpochRecord, read: Iterable[T]) -> Iterable[T]:
        """Return what an epoch takes of the records in its ranges; of one that repairs, what the other one left."""
        if record.repairs is not None:
            read = self._left.pop(record.repairs, [])
        elif record.leaves_again:
            self._left[record.epoch] = self._left.pop(record.epoch - 1, [])
            return []
        if not record.leaves_rows:
            return read
        shares: tuple[list[T], list[T]] = [], []
        for one in read:
            shares[self._leaves(record, one)].append(one)
        taken, self._left[record.epoch] = shares
        return taken

    def _leaves(self, record: EpochRecord, one: T) -> bool:
        id_, coordinate = self._named(one)
        shard = str(shard_of("-".join(map(str, coordinate)) if id_ is None else id_, record.shards))
        if shard in record.left:
            return coordinate >= record.left[shard]
        return record.is_finished_as_shown and shard in record.shown and self._hides(record, shard, coordinate)

    def _hides(self, record: EpochRecord, shard: str, coordinate: Coordinate) -> bool:
        return Pin(record.epoch, shard, coordinate) not in self._pins


def complaints(epochs: Sequence[EpochRecord], pins: Iterable[Pin]) -> list[str]:
    """Describe repairs of nothing, rows that nobody takes, and rows that are not those which a record pins."""
    found: list[str] = []
    for before, record in pairwise((None, *epochs)):
        if record is None or not (record.leaves_again or record.repairs is not None):
            continue
        if record.leaves_again:
            found += _left_otherwise(before, record)
        elif before is None or not before.leaves_rows or before.epoch != record.repairs:
            found.append(f"epoch {record.epoch} repairs epoch {record.repairs}, which is not the one before it, shown")
        else:
            found += _otherwise(before, record)
        if not record.is_empty:
            found.append(f"epoch {record.epoch} repairs another one, and has ranges of its own")
    repaired = {record.epoch - 1 if record.leaves_again else record.repairs for record in epochs}
    found += [
        f"epoch {record.epoch} leaves rows, and no epoch takes them"
        for record in epochs
        if record.left and record.epoch not in repaired
    ]
    by_shard: dict[tuple[int, str], list[Coordinate]] = defaultdict(list)
    for pin in pins:
        by_shard[pin.epoch, pin.shard].append(pin.source)
    for record in (one for one in epochs if one.is_finished_as_shown):
        if record.epoch not in repaired:
            found.append(f"epoch {record.epoch} is finished as it is shown, and no epoch repairs it")
        for shard, pinned in record.shown.items():
            rows = by_shard.pop((record.epoch, shard), [])
            said = digest.of_tables(((topic.encode(), *place) for topic, *place in rows), pinned.digest)
            if (len(rows), len(set(rows)), said) != (pinned.rows, pinned.rows, pinned.digest):
                found.append(
                    f"epoch {record.epoch}: shard {shard} pins {pinned.rows} rows, and {len(rows)} others are "
                    "written down"
                )
            outside = sum(not _reads(record, place) for place in rows)
            found += [f"epoch {record.epoch}: shard {shard} shows {outside} rows outside of its ranges"] * bool(outside)
    return found + [f"epoch {epoch} pins nothing of shard {shard}" for epoch, shard in by_shard]


def _otherwise(before: EpochRecord, record: EpochRecord) -> Iterator[str]:
    """Describe in what an epoch does not take what the one before it leaves."""
    shown = {shard: it for shard, it in before.shown.items() if before.repairs is None or shard in before.left}
    if record.shown != shown:
        yield f"epoch {record.epoch} leaves out other rows than epoch {before.epoch} shows"
    if record.after != before.left:
        yield f"epoch {record.epoch} goes on elsewhere than epoch {before.epoch} stopped"
    if before.left and record.reads != (before.reads or before.ranges):
        yield f"epoch {record.epoch} reads other ranges than epoch {before.epoch}"


def _left_otherwise(before: EpochRecord | None, record: EpochRecord) -> Iterator[str]:
    """Describe in what an abandoned epoch does not leave what it was to take."""
    if before is None or not before.left:
        yield f"epoch {record.epoch} was abandoned and leaves a rest, and epoch {record.epoch - 1} left none"
    else:
        yield from _otherwise(before, record)
    if record.left != record.after:
        yield f"epoch {record.epoch} was abandoned and leaves other rows than it was to take"
    if not record.is_abandoned:
        yield f"epoch {record.epoch} leaves a rest once more, and is not said to be abandoned"


def _reads(record: EpochRecord, place: Coordinate) -> bool:
    topic, partition, offset = place
    start, end = record.ranges.get(topic, {}).get(partition, (0, 0))
    return start <= offset < end
