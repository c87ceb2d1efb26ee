"""What an operator of dedup remembers: the ids that it has taken, and what its function keeps. Pure.

Both change together, by one delta a turn, and so they are never apart: a state that holds a record's effect goes with
a catalog that knows its id.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from effectively_once.errors import CheckpointError
from effectively_once.state.catalog.catalog import SCHEMA, Catalog
from effectively_once.state.lateness import Windows
from effectively_once_jobs.two_ways.running import Kept, Record, pass_on

WINDOWS = Windows(length_ms=600_000, lateness_ms=600_000)
"""Of the catalog: how finely ids could be forgotten. Nothing here tells it a watermark, so none is."""


@dataclass(frozen=True, slots=True)
class Delta:
    """What one turn adds, or several of them together.

    Attributes:
        ids: with their event times, ms since 1970; each was new.
        users: what is kept now of those that the turn touched.

    """

    ids: tuple[tuple[str, int], ...]
    users: dict[str, Kept]

    def encode(self) -> bytes:
        """Content of an object; the same for the same delta."""
        return json.dumps({"ids": self.ids, "users": self.users}, sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, body: bytes, where: str) -> Delta:
        """Read what `encode` wrote.

        Raises:
            CheckpointError: it is none.

        """
        try:
            found = json.loads(body)
            ids = tuple((str(id_), int(time_ms)) for id_, time_ms in found["ids"])
            return cls(ids, {user: (int(count), int(total)) for user, (count, total) in found["users"].items()})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(
                f"a note of an operator cannot be read: {error}",
                where,
                "Put the object back from the bucket's versions.",
            ) from error


@dataclass
class Memory:
    """Of one operator.

    Attributes:
        drops_copies: False leaves the catalog unasked: the negative control.

    """

    drops_copies: bool = True
    _users: dict[str, Kept] = field(default_factory=dict, init=False)
    _ids: list[tuple[str, int]] = field(default_factory=list, init=False)
    _catalog: Catalog = field(default_factory=lambda: Catalog(WINDOWS), init=False)

    def new(self, records: Sequence[Record]) -> list[Record]:
        """Those whose ids were not taken before; of two copies in one turn the first."""
        if not self.drops_copies or not records:
            return list(records)
        flags = self._catalog.decide(pa.array([record.id for record in records], pa.string()))
        return [record for record, new in zip(records, flags, strict=True) if new]

    def take(self, records: Sequence[Record]) -> tuple[list[Record], Delta]:
        """Run the operator over new records: what it passes on, and what is to be remembered. Nothing changes yet."""
        found, users = pass_on(records, self._users)
        return found, Delta(tuple((record.id, record.event_time_ms) for record in records), users)

    def fold(self, delta: Delta) -> None:
        """Remember a turn that is noted durably."""
        self._users |= delta.users
        self._ids += delta.ids
        if self.drops_copies and delta.ids:
            columns = [list(column) for column in zip(*delta.ids, strict=True)]
            self._catalog.fold(pa.table(columns, schema=SCHEMA))

    def whole(self) -> Delta:
        """Everything remembered, as one delta."""
        return Delta(tuple(self._ids), dict(self._users))
