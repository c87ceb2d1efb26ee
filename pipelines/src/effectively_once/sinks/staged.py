"""Sinks whose shards write files that nobody reads yet, and whose driver shows all of an epoch's at once (R8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from effectively_once.ledger.rows import Rows
from effectively_once.side_by_side import AT_ONCE, Turn
from effectively_once.sinks.publish import Mark, Published


class StagedFile(Rows):
    """A file that was written and is not visible yet.

    Attributes:
        name: of the object; None where there was nothing to write.
        footer: of a lake table's file the end of it, as base64, so that nobody has to read the file for it.

    """

    name: str | None
    footer: str | None = None


class Stager(Protocol):
    """Writes files."""

    def stage(self, epoch: int, table: Any) -> StagedFile:
        """Write a file that nobody reads before its epoch is shown; of no rows there is none. Raises SinkError."""
        ...


class StagedSink(Stager, Protocol):
    """Shows epochs."""

    def publish_staged(
        self,
        epoch: int,
        generation: int,
        staged: Sequence[StagedFile],
        *,
        begins: bool = False,
        turn: Turn = AT_ONCE,
    ) -> tuple[Rows, Published]:
        """Make an epoch's staged files visible, all of them at once, or find that they were visible before.

        `begins` is for a sink that is new to its chain: there, the epoch before need not be there. `turn` is called
        right before anything becomes visible.

        Raises:
            SinkError: the epoch is there with other rows (R4), or the one before is not there (R10).
            UnreachableError: a server does not answer; the sink may be asked again.

        """
        ...

    def publish_table(self, epoch: int, generation: int, table: Any, *, turn: Turn = AT_ONCE) -> tuple[Rows, Published]:
        """Stage a file of all rows of an epoch, then make it visible. Raises what `publish_staged` raises."""
        ...

    def mark_at(self, epoch: int) -> Mark | None:
        """Return the mark of an epoch: of the newest one, and of others as far as the sink keeps them."""
        ...
