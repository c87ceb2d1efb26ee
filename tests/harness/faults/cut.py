"""A network that drops what goes between two roles for a while: connections stay open and hear nothing."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from tests.harness.adapters.drivers import Struck
from tests.harness.adapters.tcp_link import TcpLink
from tests.harness.cut_sorts import Between, DrawnCut
from tests.harness.faults.fault import Lasting, name_process, now_ms
from tests.harness.faults.healing import Debt, Healing
from tests.harness.faults.server import Restartable, family, present


class Cut(Lasting):
    """What every cut has in common, wherever it is made: it comes, lasts as long as planned, and is undone.

    It has hit only if something was really held back while it lasted.

    Args:
        between: the two roles.
        drawn: which way, and who.
        healing: undoes it whatever happens.
    """

    # The epoch that is struck may end before the cut does: what comes next is to meet it too.
    flowing = True

    def __init__(self, between: Between, drawn: DrawnCut, *, healing: Healing) -> None:
        super().__init__(healing)
        self._between, self._drawn = between, drawn
        self._debt = Debt(f"let packets pass again between {between.target}", self._mend)

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        """Cut. Raises NoProcessError: nothing is cut."""
        victims = self._victims(event)
        self._healing.strike(self._debt, self._sever)
        at = now_ms()
        return [(who, at) for who in victims]

    def landed(self) -> bool:
        """Whether anything was held back."""
        return sum(self._count().values()) > 0

    def evidence(self) -> dict[str, Any]:
        return {
            "planned_s": self._seconds,
            "cut_s": self._debt.lasted_s,
            "direction": self._drawn.direction,
            "between": self._ends(),
            "dropped": self._count(),
        }

    @abstractmethod
    def _victims(self, event: Mapping[str, Any]) -> list[str]:
        """Who is cut off from whom, as history names processes. Raises NoProcessError."""

    @abstractmethod
    def _sever(self) -> None:
        """Drop what the drawn direction says, from now on. Raises NoProcessError."""

    @abstractmethod
    def _mend(self) -> None:
        """Let everything pass again. Safe to repeat."""

    @abstractmethod
    def _ends(self) -> list[str]:
        """The two between whom it was, by name."""

    @abstractmethod
    def _count(self) -> dict[str, int]:
        """What was held back, by unit and direction: `packets in`, `bytes out`."""


class CutLink(Cut):
    """The link by which a pipeline reaches a server holds back what goes over it; the server runs.

    Args:
        between: pipeline and server.
        link: between the two.
        server: which is not touched.
        drawn: which way, and who.
        healing: undoes it whatever happens.
    """

    def __init__(
        self, between: Between, link: TcpLink, server: Restartable, drawn: DrawnCut, *, healing: Healing
    ) -> None:
        super().__init__(between, drawn, healing=healing)
        self._link, self._server = link, server

    def after(self) -> list[str]:
        """The server, which was there all the time."""
        return present(self._server)

    def _victims(self, event: Mapping[str, Any]) -> list[str]:
        return [name_process(family(self._server)[0])]

    def _sever(self) -> None:
        self._link.cut(self._drawn.direction)

    def _mend(self) -> None:
        self._link.heal()

    def _ends(self) -> list[str]:
        return [self._between.first, self._between.second]

    def _count(self) -> dict[str, int]:
        return self._link.held if self._debt.since is not None else {}
