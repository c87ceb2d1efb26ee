"""What is visible of a declared epoch, shard by shard, and whether the epoch can be finished with just that (R10).

No client is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from effectively_once.epoch.as_shown import RESTORE, places
from effectively_once.errors import SinkError
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.delta import Delta
from effectively_once.ledger.offsets import Ranges
from effectively_once.pipeline.columns import COORDINATES, DEAD_LETTER
from effectively_once.sinks.publish import Mark


@dataclass(frozen=True, slots=True)
class VisibleRows:
    """The rows that a shard of a sink shows of an epoch.

    Attributes:
        where: they are, for messages.
        sources: source coordinates they were read at; None where they do not say it.

    """

    where: str
    sources: pa.Table | None


class ShownShard(Protocol):
    """A shard of a sink with marks, as it is asked what it shows."""

    @property
    def place(self) -> tuple[str, int]:
        """Sink and shard."""
        ...

    def mark(self) -> Mark | None:
        """Read the last committed mark, and disturb nobody."""
        ...

    def fence(self, generation: int) -> Mark | None:
        """Open a producer or session, which ends what others left open; then read the mark."""
        ...

    def rows(self, mark: Mark) -> VisibleRows:
        """Read the rows that were published with the last mark.

        Raises:
            SinkError: what is there is not what the mark tells of.

        """
        ...


@dataclass(frozen=True, slots=True)
class Finished:
    """What a shard is finished with: rows at these coordinates, and those that a delta names."""

    coordinates: pa.Table
    ids: Delta | None


@dataclass(frozen=True, slots=True)
class Seen:
    """What a shard shows of the first step of an epoch.

    Attributes:
        marks: sink -> mark and rows, of sinks whose mark is at the epoch, in the order in which they publish.
        decided: its delta of ids, where that is an object.
        files: sinks on the object store that show rows of the epoch, of any shard; with the generation of whoever
            published them.

    """

    shard: int
    marks: Mapping[str, tuple[Mark, VisibleRows]]
    decided: Delta | None = None
    files: Mapping[str, int] = field(default_factory=dict)

    def line(self) -> str:
        """Tell it in one line."""
        told = [f"{name} shows {mark.rows:,} rows ({rows.where})" for name, (mark, rows) in self.marks.items()]
        told += [f"{name} shows the epoch" for name in self.files]
        if self.decided is not None:
            told.append(f"{self.decided.rows:,} ids are decided" + (", which nobody sees" if self.leftover else ""))
        return f"shard {self.shard}: {', '.join(told) or 'nothing'}"

    @property
    def accepted(self) -> dict[str, tuple[Mark, VisibleRows]]:
        """Of `marks` those of sinks of accepted rows."""
        return {name: shown for name, shown in self.marks.items() if name != DEAD_LETTER}

    @property
    def unseen(self) -> bool:
        """Whether nobody has seen an accepted row: what was decided and recorded may be decided again."""
        return not self.accepted and not self.files

    @property
    def leftover(self) -> bool:
        """Whether the delta is not what sinks show: a small decision is no object, and a refused repeat created it."""
        rows = {mark.rows for mark, _ in self.accepted.values()}
        return self.decided is not None and (self.unseen or rows not in (set(), {self.decided.rows}))

    def decides(self, declared: Declaration) -> int | None:
        """Return what deltas and recorded outputs are named by of whoever published the accepted rows that are visible.

        The mark of messages tells whose they are, a manifest too. That of a table has the last generation that opened a
        session, after which none before it publishes: what is there counts already as the declaration has it now.
        """
        generations = [*(mark.generation for mark, _ in self.accepted.values()), *self.files.values()]
        return declared.find_anew(min(generations)) if generations else declared.decides

    def find_finished(self, declared: Declaration) -> Finished | None:
        """Return what the shard is finished with; None where it shows nothing, and takes all of its input.

        Raises:
            SinkError: its sinks do not show the same rows, or do not tell which rows they are.

        """
        if not self.marks and self.unseen:
            return None
        numbers = {mark.rows for mark, _ in self.accepted.values()}
        if len(numbers) > 1:
            raise self._mismatch_error(declared, "its sinks do not show the same rows")
        tables = [rows.sources for _, rows in self.accepted.values() if rows.sources is not None]
        # A table, messages that are columns, and files do not tell: then the ids that were decided do.
        ids = self.decided if not tables and not self.unseen else None
        if not tables and not self.unseen and (ids is None or self.leftover):
            raise self._mismatch_error(declared, "nothing tells which rows of the input these are")
        dead = self.marks[DEAD_LETTER][1].sources if DEAD_LETTER in self.marks else COORDINATES.empty_table()
        if dead is None:
            raise self._mismatch_error(declared, "its dead letters do not tell where they were read")
        together = pa.concat_tables([tables[0] if tables else COORDINATES.empty_table(), dead])
        self._refuse_what_is_not_of_it(together, declared)
        return Finished(together, ids)

    def _refuse_what_is_not_of_it(self, rows: pa.Table, declared: Declaration) -> None:
        outside = rows.num_rows - within(rows, declared.ranges)
        if outside:
            raise self._mismatch_error(declared, f"{outside:,} rows were read outside of its ranges")
        twice = rows.num_rows - pc.count_distinct(places(rows)).as_py()
        if twice:
            raise self._mismatch_error(declared, f"{twice:,} rows are shown twice")

    def _mismatch_error(self, declared: Declaration, how: str) -> SinkError:
        return SinkError(
            f"something else is visible of epoch {declared.epoch}: {how}",
            self.line(),
            f"It has to be taken back; nothing was changed. {RESTORE}",
        )


def within(rows: pa.Table, ranges: Ranges) -> int:
    """How many rows were read within ranges of offsets."""
    number = 0
    for topic, partitions in ranges.items():
        for partition, (start, end) in partitions.items():
            here = pc.and_(pc.equal(rows["topic"], topic), pc.equal(rows["partition"], int(partition)))
            offsets = rows["offset"].filter(here)
            inside = pc.and_(pc.greater_equal(offsets, start), pc.less(offsets, end))
            number += pc.sum(inside).as_py() or 0
    return number
