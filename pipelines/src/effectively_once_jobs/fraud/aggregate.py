"""The role of the aggregator: transactions and scores in, decisions to the writer, until its task is ended.

Transactions are read at least once: the offsets below which everything is stored are committed, a successor reads on
from there, and the store takes each decision once. Scores are read at most once, from the end of their topic.
"""

from __future__ import annotations

import os
import queue
import time
from collections import Counter
from collections.abc import Callable

import orjson
from confluent_kafka import TopicPartition

from effectively_once.progress import announce
from effectively_once_jobs.fraud import kafka
from effectively_once_jobs.fraud.aggregator import Aggregator, Score
from effectively_once_jobs.fraud.analyzers import ANALYZERS
from effectively_once_jobs.fraud.decision import Decision
from effectively_once_jobs.fraud.outstanding import Outstanding
from effectively_once_jobs.fraud.settings import FraudSettings
from effectively_once_jobs.fraud.store import ResultStore, Stored
from effectively_once_jobs.fraud.transaction import Place, Refusal, parse
from effectively_once_jobs.fraud.writer import Writer

IDLE_MS, COMMIT_S, TELL_S, CARDS_S = 50, 0.1, 1.0, 0.05
NAME = "aggregator"


def run(settings: FraudSettings, going: Callable[[], bool]) -> None:
    """Decide while `going()`. Raises what ended the writer."""
    role = _Role(settings)
    role.writer.start()
    try:
        while going() and role.writer.failed is None:
            role.turn()
    finally:
        role.writer.end()
        role.writer.join(timeout=10.0)
    if role.writer.failed is not None:
        raise role.writer.failed


class _Role:
    """Everything of one run of the role."""

    def __init__(self, settings: FraudSettings) -> None:
        self._settings = settings
        self._aggregator = Aggregator(tuple(ANALYZERS), settings.deadline_ms, settings.held_max)
        self._outstanding = Outstanding()
        self._done: queue.SimpleQueue[tuple[list[Decision | Refusal], Stored]] = queue.SimpleQueue()
        self.writer = Writer(ResultStore(settings.database, settings.pipeline), lambda *one: self._done.put(one))
        self._source = kafka.consumer(settings.kafka_bootstrap, settings.pipeline)
        numbers = kafka.partitions(self._source, settings.topic)
        own = self._source.committed([TopicPartition(settings.topic, one) for one in numbers], timeout=kafka.ANSWER_S)
        # Without an offset of ours it is the topic's first one.
        self._transactions = [
            TopicPartition(one.topic, one.partition, one.offset if one.offset >= 0 else kafka.FIRST) for one in own
        ]
        scores = kafka.ends(self._source, settings.scores, kafka.partitions(self._source, settings.scores))
        self._source.assign(
            [*self._transactions, *(TopicPartition(settings.scores, one, end) for one, end in scores.items())]
        )
        self._paused = False
        self._committed: dict[int, int] = {}
        self._commit_s = self._tell_s = 0.0
        self._counts: Counter[str] = Counter()
        self._told: dict[str, int] = {}
        announce("role", role=NAME, state="started", pid=os.getpid())

    def turn(self) -> None:
        """Take in what has come, decide what is due, and take note of what is stored."""
        if self.writer.cards is None:
            # Nothing can be decided before it is known which cards there are.
            time.sleep(CARDS_S)
            return
        next_ms = self._aggregator.next_ms()
        now_ms = time.time() * 1000
        wait_ms = IDLE_MS if next_ms is None else min(max(next_ms - now_ms, 1), IDLE_MS)
        for message in kafka.messages(self._source, wait_ms / 1000):
            if message.topic() == self._settings.scores:
                self._score(message.partition(), message.value())
            else:
                self._transaction((message.partition(), message.offset()), kafka.arrival(message), message.value())
        for decision in self._aggregator.due(time.time() * 1000):
            self._give(decision)
        self._take_note()
        self._pause()
        self._now_and_then()

    def _transaction(self, place: Place, arrived_ms: int, value: bytes | None) -> None:
        self._outstanding.note_read(place)
        self._counts["read"] += 1
        one = parse(value, place, arrived_ms)
        if not isinstance(one, Refusal) and one.card not in (self.writer.cards or ()):
            one = Refusal(place, arrived_ms, one.id, "unknown_card")
        if isinstance(one, Refusal):
            self._aggregator.note_refused(place)
            self._give(one)
        else:
            self._give(self._aggregator.transaction(one, kafka.now_ms()))

    def _score(self, partition: int, value: bytes | None) -> None:
        try:
            fields = orjson.loads(value or b"")
            score = Score((partition, int(fields["offset"])), str(fields["analyzer"]), int(fields["points"]))
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            self._counts["no_scores"] += 1
            return
        self._give(self._aggregator.score(score, kafka.now_ms()))

    def _give(self, one: Decision | Refusal | None) -> None:
        if one is not None:
            self.writer.give(one)

    def _take_note(self) -> None:
        while not self._done.empty():
            portion, stored = self._done.get_nowait()
            for one in portion:
                if isinstance(one, Decision):
                    self._aggregator.forget_stored(one.transaction.id)
                    self._outstanding.note_stored(one.transaction.place)
                    self._counts["partial"] += bool(one.missing)
                else:
                    self._outstanding.note_stored(one.place)
                    self._counts[f"refused_{one.reason}"] += 1
            self._counts["decided"] += stored.new
            self._counts["decided_before"] += stored.known
            self._counts["refused_duplicate"] += len(stored.duplicates)

    def _pause(self) -> None:
        """Read no more transactions while too much is held, and go on when half of it is stored."""
        held, most = len(self._outstanding), self._settings.held_max
        if not self._paused and held >= most:
            self._source.pause(self._transactions)
        elif self._paused and held <= most // 2:
            self._source.resume(self._transactions)
        else:
            return
        self._paused = not self._paused
        announce("role", role=NAME, state="paused" if self._paused else "reading", held=held)

    def _now_and_then(self) -> None:
        now_s = time.monotonic()
        if now_s - self._commit_s >= COMMIT_S:
            self._commit_s, offsets = now_s, self._outstanding.offsets()
            moved = {number: end for number, end in offsets.items() if self._committed.get(number) != end}
            if moved:
                topic = self._settings.topic
                self._source.commit(offsets=[TopicPartition(topic, *one) for one in moved.items()], asynchronous=True)
                self._committed |= moved
        counts = {**self._counts, "late_scores": self._aggregator.late, "dropped_scores": self._aggregator.dropped}
        if now_s - self._tell_s >= TELL_S and counts != self._told:
            self._tell_s, self._told = now_s, counts
            announce("role", role=NAME, state="counts", held=len(self._outstanding), **counts)
