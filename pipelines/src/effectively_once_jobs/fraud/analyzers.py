"""The three analyzers: points from 0 (as usual) to 100 (most unusual) for a transaction, by what its card did before.

The points are a function of the card's transactions in the order of their partition, and of nothing else: no clock, no
order between cards. So an analyzer that starts again and reads the topic from a window back gives the same points.
Windows are cut by arrival in Kafka, which nobody who sends can forge. All numbers are whole.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from math import isqrt

from effectively_once_jobs.fraud.transaction import Transaction

MOST = 100
FEW = 3
"""With fewer transactions before it nothing is known about a card's average ticket."""
Points = Callable[[Sequence[Transaction], Transaction], int]


def average(before: Sequence[Transaction], one: Transaction) -> int:
    """Points for an amount above the card's average ticket: none up to twice of it, all from ten times of it on."""
    if len(before) < FEW:
        return 0
    mean = max(sum(other.amount_cents for other in before) // len(before), 1)
    return _points((one.amount_cents * 100 // mean - 200) // 8)


def count(before: Sequence[Transaction], _: Transaction) -> int:
    """Points for the number of transactions before it in the window: 20 for each beyond the fifth."""
    return _points((len(before) - 5) * 20)


def proximity(before: Sequence[Transaction], one: Transaction) -> int:
    """Points for the speed from the place before to this one: none up to 200 km/h, all from 1,000 km/h on."""
    if not before:
        return 0
    last = before[-1]
    metres = isqrt((one.x_m - last.x_m) ** 2 + (one.y_m - last.y_m) ** 2)
    # Clocks of terminals are not one: less than a second apart counts as one.
    speed_kmh = metres * 3600 // max(abs(one.event_time_ms - last.event_time_ms), 1000)
    return _points((speed_kmh - 200) // 8)


def _points(number: int) -> int:
    return min(max(number, 0), MOST)


ANALYZERS: dict[str, Points] = {"average": average, "count": count, "proximity": proximity}


class Analyzer:
    """One analyzer over one partition, with the history of its cards as far back as its window.

    An id that its card had within the window before is a repeat: it gets no points, and is no part of the history. So
    what is in a window is known to whoever has read two of them.

    Args:
        points: the function.
        window_ms: how far back it looks.

    """

    def __init__(self, points: Points, window_ms: int) -> None:
        self._points, self._window_ms = points, window_ms
        self._cards: dict[str, deque[tuple[Transaction, bool]]] = {}
        self._order: deque[Transaction] = deque()

    def __len__(self) -> int:
        """Transactions that are kept."""
        return len(self._order)

    def score(self, one: Transaction) -> int | None:
        """Points of the next transaction; None for a repeat."""
        self._forget(one.arrived_ms - self._window_ms)
        before = self._cards.setdefault(one.card, deque())
        fresh = all(other.id != one.id for other, _ in before)
        found = self._points([other for other, counts in before if counts], one) if fresh else None
        before.append((one, fresh))
        self._order.append(one)
        return found

    def _forget(self, until_ms: int) -> None:
        """Drop what arrived until then; within a partition times of arrival never fall."""
        while self._order and self._order[0].arrived_ms <= until_ms:
            card = self._order.popleft().card
            self._cards[card].popleft()
            if not self._cards[card]:
                del self._cards[card]
