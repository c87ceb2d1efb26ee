"""The acknowledger (S10): tells which events have come through all components, and which have to be replayed.

As in Storm each tuple under way has a random number, and an event's tuples are tracked as one number, the XOR of all
that were emitted and of all that were acknowledged: each comes in twice, and when nothing is under way it is 0. That an
event still under way comes to 0 by chance has a probability of 2^-63. So an event takes a few bytes, however many
tuples it becomes. Pure: it knows no clock and no component.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

Event = TypeVar("Event", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Report:
    """What a component tells of a tuple that it has done with.

    Attributes:
        root: number under which the event is tracked.
        xor: the tuple's own number, XORed with those of all tuples that it emitted for it. Its own alone where it
            emitted none: the last component, or an early-out.
        failed: it could not; the event is to be replayed.

    """

    root: int
    xor: int
    failed: bool = False


@dataclass(slots=True)
class _Tracked(Generic[Event]):
    event: Event
    xor: int
    due_s: float


class Acknowledger(Generic[Event]):
    """Tracks events from their emission to their end.

    Args:
        time_out_s: after so long an event that has come to no end counts as failed.

    """

    def __init__(self, time_out_s: float) -> None:
        self._time_out_s = time_out_s
        # In the order of their emission, which is that of their time-outs.
        self._tracked: OrderedDict[int, _Tracked[Event]] = OrderedDict()

    def __len__(self) -> int:
        """How many are under way."""
        return len(self._tracked)

    def track(self, root: int, event: Event, now_s: float) -> None:
        """Track an event that the source emits as the tuple `root`; a replay gets another number.

        Raises:
            ValueError: the number is 0 or taken.

        """
        if root == 0 or root in self._tracked:
            raise ValueError(f"tuple {root} cannot be tracked: its number is 0 or taken")
        self._tracked[root] = _Tracked(event, root, now_s + self._time_out_s)

    def take_report(self, report: Report) -> tuple[Event, bool] | None:
        """Take a report in.

        Returns:
            The event and whether it was successful, when it has come to its end by this report. None while it has
            not, and for a report that comes late: its event has failed, or timed out, and is tracked anew if at all.

        """
        tracked = self._tracked.get(report.root)
        if tracked is None:
            return None
        if report.failed:
            del self._tracked[report.root]
            return tracked.event, False
        tracked.xor ^= report.xor
        if tracked.xor:
            return None
        del self._tracked[report.root]
        return tracked.event, True

    def time_out(self, now_s: float) -> list[Event]:
        """Give up the events whose time is over, and return them, the oldest first."""
        found = []
        while self._tracked:
            root, oldest = next(iter(self._tracked.items()))
            if oldest.due_s > now_s:
                break
            del self._tracked[root]
            found.append(oldest.event)
        return found
