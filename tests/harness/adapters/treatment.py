"""What a link in front of the object store makes of a request: a value, chosen by what is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple


class Asked(NamedTuple):
    """A request: verb, path without the query, and the header by which a put is conditional (or nothing)."""

    verb: str
    path: str
    condition: str = ""

    @property
    def kind(self) -> str:
        """As evidence counts it: `GET`, `PUT If-Match`."""
        return f"{self.verb} {self.condition}".rstrip()


@dataclass(frozen=True, slots=True)
class Treatment:
    """What goes wrong with one request.

    Attributes:
        name: in evidence: `503`, `answer lost`.
        passed_on: whether the store gets the request; its answer is there before anything else happens.
        wait_s: how long the answer waits; it goes back at once when the link is calmed.
        answer: status and code that are answered in the place of what the store said; None: what it said.
        cut: whether the connection is reset in the place of an answer.
    """

    name: str
    passed_on: bool = True
    wait_s: float = 0.0
    answer: tuple[int, str] | None = None
    cut: bool = False


Choice = Callable[[Asked], Treatment | None]
"""Says of a request what goes wrong with it; None: nothing."""
