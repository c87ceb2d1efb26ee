"""What an epoch of a run that is made up takes of its rows, where it does not take them all."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import pyarrow as pa

from effectively_once.ledger import digest
from effectively_once.pipeline.columns import COORDINATES
from tests.harness.checkers.xxhash64 import shard_of
from tests.unit.harness.fabricated_files import SHARDS, Row


@dataclass
class Shares:
    """Epochs that are repaired, divided or abandoned, by number; see `fabricate`."""

    repaired: int | None = None
    divided: int | None = None
    abandoned: bool = False
    shown: list[Row] = field(default_factory=list)
    left: list[Row] = field(default_factory=list)
    stopped: Row = field(default_factory=dict)

    def of(self, number: int, rows: list[Row], known: AbstractSet[str]) -> list[Row]:
        """What an epoch takes of its rows; what it leaves to the next one, and where a shard stopped, is kept."""
        rows, self.left, self.stopped = self._share(number, rows, known)
        return rows

    def _shown(self, rows: list[Row], ids: AbstractSet[str]) -> tuple[list[Row], list[Row]]:
        """What an epoch takes of which shard 0 shows the first half, and what it leaves."""
        taken: list[Row] = []
        known = set(ids)
        for at, row in enumerate(rows):
            source = (row["topic"], row["partition"], row["offset"])
            mine = shard_of(row["id"] or "-".join(map(str, source)), SHARDS) == 0
            if mine and (at >= len(rows) // 2 or row["id"] in known):
                continue
            known |= {row["id"]} - {None}
            taken.append(row)
            self.shown += [{"epoch": self.repaired, "shard": 0, "source": list(source)}] * mine
        return taken, [row for row in rows if row not in taken]

    def _share(self, number: int, rows: list[Row], known: AbstractSet[str]) -> tuple[list[Row], list[Row], Row]:
        if number == self.repaired:
            return *self._shown(rows, known), {}
        if self.gives_up(number):
            return [], rows, self.stopped
        if self.divided is not None and number in (self.divided, self.divided + 1):
            return self._part(rows)
        return rows, [], {}

    def gives_up(self, number: int) -> bool:
        """Whether an operator abandoned it."""
        return self.abandoned and self.divided is not None and number == self.divided + 1

    def _part(self, rows: list[Row]) -> tuple[list[Row], list[Row], Row]:
        """Of an epoch whose shard 1 takes a third of its rows."""
        mine = [
            row
            for row in rows
            if shard_of(row["id"] or f"{row['topic']}-{row['partition']}-{row['offset']}", SHARDS) == 1
        ]
        left = mine[max(1, len(mine) // 3) :]
        stopped = {"1": [left[0]["topic"], left[0]["partition"], left[0]["offset"]]}
        return [row for row in rows if row not in left], left, stopped

    def pinned(self) -> Row:
        """What the repaired epoch shows, as its repair pins it."""
        rows = [dict(zip(COORDINATES.names, one["source"], strict=True)) for one in self.shown]
        table = pa.Table.from_pylist(rows, COORDINATES)
        return {"0": {"rows": table.num_rows, "digest": digest.of_rows_in(table), "bytes": 1, "key": "k", "ids": None}}
