"""A sink as the conformance suite sees it: rows are ids of one shard, whatever they are made of in the sink."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from effectively_once.sinks.publish import Sink
from tests.stack.faulty_link import Fault

Announce = Callable[[str], None]
PATIENCE_S = 2.0
"""How long the sinks of this suite wait for a server."""
TRANSACTION: Mapping[str, Mapping[str, str]] = {
    "before": {"point": "ids_decided"},
    "inside": {"point": "transaction_open"},
    "after": {"point": "committed"},
}


def silent(_: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class Place:
    """Where one test's sink is. Plain texts, so that a child process can be told; all of them lead through links."""

    kind: str
    pipeline: str
    kafka: str
    s3: str
    database: str


class Adapter(ABC):
    """One kind of sink, shard 1 of 2 where it has shards."""

    points: ClassVar[Mapping[str, Mapping[str, str]]]
    """`before`, `inside` and `after` publishing, as points of the protocol (effectively_once.points)."""
    through: ClassVar[str] = ""
    """The kind of sink whose link its commits go through, where it has none of its own."""
    fences: ClassVar[bool] = True
    """Whether a driver that was replaced is refused before it publishes."""
    without: ClassVar[Mapping[str, str]] = {}
    """Cases that have no meaning for this sink -> why."""

    def __init__(self, place: Place) -> None:
        self.place = place

    @abstractmethod
    def make(self) -> None:
        """Make what the sink needs."""

    @abstractmethod
    def sink(self, announce: Announce = silent) -> Sink[Any]:
        """Open a publisher of the shard, as a process of its own would."""

    @abstractmethod
    def rows(self, ids: Sequence[str], country: str | None = None) -> Any:
        """Make rows of these ids, with a column more when there is a country."""

    @abstractmethod
    def visible(self) -> list[tuple[str, str | None]]:
        """Return id and country of every row that a reader of committed data sees, sorted."""

    @abstractmethod
    def missing(self) -> tuple[Sink[Any], str]:
        """Open a publisher whose table or topic does not exist; what its error says."""

    def other_columns(self) -> str:
        """Change the table so that rows do not fit; what the error says."""
        raise NotImplementedError

    @abstractmethod
    def add_column(self) -> None:
        """Do what has to be done before a column is added."""

    def heal_after_s(self, fault: Fault) -> float:
        """How long a fault must last for its time-out to be seen, at which point it ends."""
        return PATIENCE_S + 0.5 if fault is Fault.LOSE else 0.5

    def at_commit(self, begin: Callable[[bytes], None]) -> Announce:
        """Return what the publisher is to be given so that `begin` is called when only the commit is left.

        `begin` is given what the client sends first after that, empty for anything.
        """

        def announce(point: str) -> None:
            if point == "transaction_open":
                begin(b"")

        return announce

    def ids(self) -> list[str]:
        """Return the visible ids, sorted."""
        return [identity for identity, _ in self.visible()]
