"""What is done to a pipeline while records are sent to it: faults, or changes."""

from __future__ import annotations

import threading
from typing import Protocol


class Meanwhile(Protocol):
    """A thread of its own that does it, one thing after the other.

    Attributes:
        stop_asked: set from outside: nothing more is begun.
        waiting: set while records are to flow freely, and once all is done.
        drained: set from outside once everything was sent and published.
        error: what ended it early.
    """

    stop_asked: threading.Event
    waiting: threading.Event
    drained: threading.Event
    error: BaseException | None

    @property
    def says(self) -> str:
        """What is done, for the console."""

    def start(self) -> None:
        """Begin."""

    def is_alive(self) -> bool:
        """Whether something is still to come."""

    def join(self, timeout: float | None = None) -> None:
        """Wait for the end."""

    def more(self) -> bool:
        """Whether one more portion of records may be sent."""

    def end(self) -> None:
        """Give up what is under way, and undo what is not undone. Safe to repeat."""
