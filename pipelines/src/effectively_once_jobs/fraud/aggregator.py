"""The aggregator: decides a transaction when all analyzers have answered, or at its deadline with those that have.

Pure: it is told what comes and what the time is.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from heapq import heappop, heappush

from effectively_once_jobs.fraud.decision import Decision
from effectively_once_jobs.fraud.transaction import Place, Refusal, Transaction


@dataclass(frozen=True, slots=True)
class Score:
    """Points that an analyzer gave to the transaction at a place."""

    place: Place
    analyzer: str
    points: int


class Aggregator:
    """Transactions and scores in, decisions out; every transaction that comes in is decided once.

    Args:
        analyzers: whose points make a decision complete.
        deadline_ms: after arrival.
        early_max: scores that are kept although their transaction has not been read yet. Beyond it the oldest are
            dropped: scores are delivered at most once.

    Attributes:
        late: scores that came after the decision.
        dropped: scores that were dropped as there were too many early ones.

    """

    def __init__(self, analyzers: tuple[str, ...], deadline_ms: int, early_max: int) -> None:
        self._analyzers, self._deadline_ms, self._early_max = frozenset(analyzers), deadline_ms, early_max
        self._waiting: dict[Place, tuple[Transaction, dict[str, int]]] = {}
        self._deadlines: list[tuple[int, Place]] = []
        self._early: OrderedDict[Place, dict[str, int]] = OrderedDict()
        self._read: dict[int, int] = {}
        self._in_flight: dict[str, Place] = {}
        self.late = self.dropped = 0

    def __len__(self) -> int:
        """Transactions that wait for a decision, or for `forget_stored`."""
        return len(self._in_flight)

    def transaction(self, one: Transaction, now_ms: int) -> Decision | Refusal | None:
        """Take a transaction in. An id that is in flight with another place is a duplicate; the first counts."""
        known = self._in_flight.get(one.id)
        if known is not None and known != one.place:
            self.note_refused(one.place)
            return Refusal(one.place, one.arrived_ms, one.id, "duplicate")
        self._note_read(one.place)
        points = self._early.pop(one.place, {})
        self._in_flight[one.id] = one.place
        self._waiting[one.place] = one, points
        heappush(self._deadlines, (one.arrived_ms + self._deadline_ms, one.place))
        return self._complete(one.place, now_ms)

    def note_refused(self, place: Place) -> None:
        """Take note of a record that gets no decision: scores of it are not kept."""
        self._note_read(place)
        self._early.pop(place, None)

    def score(self, score: Score, now_ms: int) -> Decision | None:
        """Take a score in."""
        if score.analyzer not in self._analyzers:
            return None
        waiting = self._waiting.get(score.place)
        if waiting is not None:
            waiting[1][score.analyzer] = score.points
            return self._complete(score.place, now_ms)
        partition, offset = score.place
        if offset <= self._read.get(partition, -1):
            self.late += 1
            return None
        self._early.setdefault(score.place, {})[score.analyzer] = score.points
        if len(self._early) > self._early_max:
            self.dropped += len(self._early.popitem(last=False)[1])
        return None

    def due(self, now_ms: float) -> list[Decision]:
        """Decide whatever has come to its deadline."""
        found = []
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            place = heappop(self._deadlines)[1]
            if place in self._waiting:
                found.append(self._decide(place, int(now_ms)))
        return found

    def next_ms(self) -> int | None:
        """When the next one comes to its deadline."""
        while self._deadlines and self._deadlines[0][1] not in self._waiting:
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def forget_stored(self, id_: str) -> None:
        """Forget a transaction: from now on the result store knows its id."""
        self._in_flight.pop(id_, None)

    def _complete(self, place: Place, now_ms: int) -> Decision | None:
        return self._decide(place, now_ms) if self._waiting[place][1].keys() >= self._analyzers else None

    def _decide(self, place: Place, now_ms: int) -> Decision:
        one, points = self._waiting.pop(place)
        return Decision(one, now_ms, points)

    def _note_read(self, place: Place) -> None:
        partition, offset = place
        self._read[partition] = max(offset, self._read.get(partition, -1))
