"""The role of the aggregator on a broker in memory: while the store is away it holds a bounded number, and says so."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from confluent_kafka import TopicPartition

from effectively_once.progress import VARIABLE
from effectively_once_jobs.fraud import aggregate, analyze, kafka
from effectively_once_jobs.fraud.analyzers import ANALYZERS
from effectively_once_jobs.fraud.decision import Decision
from effectively_once_jobs.fraud.settings import FraudSettings
from effectively_once_jobs.fraud.store import Stored, StoreDownError
from effectively_once_jobs.fraud.transaction import Refusal
from infra.embedded.process import wait_for
from tests.unit.harness.fake_message import FakeMessage

HELD_MAX, SENT = 50, 400
SETTINGS = FraudSettings(
    pipeline="fraud",
    topic="transactions",
    job="effectively_once_jobs.fraud",
    kafka_bootstrap="localhost:1",
    s3_endpoint="http://localhost:1",
    s3_bucket="bucket",
    database="postgresql://localhost:1/results",
    held_max=HELD_MAX,
    deadline_ms=50,
    target_ms=100,
    count_window_ms=1_000,
)


class Broker:
    """A consumer and a producer of topics in memory, each of one partition."""

    def __init__(self) -> None:
        self.topics: dict[str, list[FakeMessage]] = {SETTINGS.topic: [], SETTINGS.scores: []}
        self.positions: dict[str, int] = {}
        self.paused: set[str] = set()
        self.committed_at = -1001

    def put(self, topic: str, **fields: Any) -> None:
        log = self.topics[topic]
        log.append(FakeMessage(orjson.dumps(fields), type_=2, place=(topic, 0, len(log)), at_ms=kafka.now_ms()))

    def list_topics(self, topic: str, timeout: float) -> Any:
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions={0: None})})

    def committed(self, asked: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        return [TopicPartition(SETTINGS.topic, 0, self.committed_at)]

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> None:
        self.committed_at = offsets[0].offset

    def get_watermark_offsets(self, where: TopicPartition, timeout: float) -> tuple[int, int]:
        return 0, len(self.topics[where.topic])

    def offsets_for_times(self, asked: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        log = self.topics[asked[0].topic]
        found = next((one.offset() for one in log if one.at_ms >= asked[0].offset), -1)
        return [TopicPartition(asked[0].topic, 0, found)]

    def assign(self, asked: list[TopicPartition]) -> None:
        self.positions = {one.topic: max(one.offset, 0) for one in asked}

    def pause(self, asked: list[TopicPartition]) -> None:
        self.paused |= {one.topic for one in asked}

    def resume(self, asked: list[TopicPartition]) -> None:
        self.paused -= {one.topic for one in asked}

    def poll(self, wait_s: float) -> FakeMessage | None:
        return next(iter(self.consume(1, 0)), None)

    def consume(self, most: int, wait_s: float) -> list[FakeMessage]:
        found: list[FakeMessage] = []
        for topic, at in self.positions.items():
            if topic not in self.paused:
                taken = self.topics[topic][at : at + min(most - len(found), 10)]
                self.positions[topic] += len(taken)
                found += taken
        return found

    def produce(self, topic: str, value: bytes, partition: int) -> None:
        self.put(topic, **orjson.loads(value))

    def flush(self, wait_s: float) -> None:
        pass


class Store:
    """A store that may be down."""

    def __init__(self) -> None:
        self.down = False
        self.decisions: list[Decision] = []
        self.refusals: list[Refusal] = []

    def cards(self) -> frozenset[str]:
        return frozenset({"c"})

    def put(self, decisions: Sequence[Decision], refusals: Sequence[Refusal]) -> Stored:
        if self.down:
            raise StoreDownError("gone")
        self.decisions += decisions
        self.refusals += refusals
        return Stored(len(decisions), 0, ())

    def close(self) -> None:
        pass


def transaction(n: int, **changes: Any) -> dict[str, Any]:
    row = {"id": f"t{n}", "card": "c", "amount_cents": 5, "event_time_ms": kafka.now_ms(), "x_m": 0, "y_m": 0}
    return {**row, **changes}


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    made = Broker()
    monkeypatch.setattr(kafka, "consumer", lambda *_: made)
    monkeypatch.setattr(
        kafka, "producer", lambda *_: SimpleNamespace(produce=made.produce, poll=lambda _: None, flush=made.flush)
    )
    return made


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file that roles announce themselves in."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "events.jsonl"))
    return tmp_path / "events.jsonl"


@pytest.fixture
def started(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[aggregate._Role, Store]]:
    """Return a role that knows the cards, and its store; a score of before it is delivered at most once."""
    store = Store()
    monkeypatch.setattr(aggregate, "ResultStore", lambda *_: store)
    broker.put(SETTINGS.scores, offset=0, analyzer="average", points=99)
    role = aggregate._Role(SETTINGS)
    role.writer.start()
    wait_for("the cards", 10.0, lambda: role.writer.cards is not None)
    yield role, store
    role.writer.end()
    role.writer.join(5.0)


def take_turns(role: aggregate._Role, holds: Callable[[], bool]) -> None:
    """Let the role take turns until it holds."""

    def turn() -> bool:
        role.turn()
        return holds()

    wait_for("all of it", 20.0, turn)


def test_while_the_store_is_away_so_many_are_held_and_no_more_and_none_is_lost(
    events: Path, broker: Broker, started: tuple[aggregate._Role, Store]
) -> None:
    role, store = started
    store.down = True
    for n in range(SENT):
        broker.put(SETTINGS.topic, **transaction(n))
    paused_at = time.monotonic() + 0.3
    while time.monotonic() < paused_at:
        role.turn()
        assert len(role._outstanding) <= HELD_MAX + kafka.AT_ONCE
    read = broker.positions[SETTINGS.topic]
    assert HELD_MAX <= read <= HELD_MAX + 20, "reads no further"
    assert broker.paused == {SETTINGS.topic}
    assert broker.committed_at <= 0, "nothing is committed that is not stored"
    store.down = False

    take_turns(role, lambda: len(store.decisions) == SENT and broker.committed_at == SENT)
    role.writer.end()
    role.writer.join(5.0)
    assert len({one.transaction.id for one in store.decisions}) == SENT
    told = [one["state"] for one in map(orjson.loads, events.read_bytes().splitlines()) if one["state"] != "counts"]
    assert told[:5] in (
        ["started", "paused", "holding", "storing", "reading"],
        ["started", "holding", "paused", "storing", "reading"],
    )


def test_scores_complete_a_decision_and_what_is_none_is_passed_over(
    broker: Broker, started: tuple[aggregate._Role, Store]
) -> None:
    role, store = started
    broker.put(SETTINGS.topic, **transaction(0))
    broker.put(SETTINGS.topic, **transaction(1, card="nobody"))
    broker.put(SETTINGS.topic, **transaction(0, amount_cents=9))
    for name in ANALYZERS:
        broker.put(SETTINGS.scores, offset=0, analyzer=name, points=7)
    broker.put(SETTINGS.scores, offset="x")
    broker.topics[SETTINGS.scores].append(FakeMessage(b"{", place=(SETTINGS.scores, 0, 5)))

    take_turns(role, lambda: len(store.decisions) + len(store.refusals) == 3)
    assert store.decisions[0].points == dict.fromkeys(ANALYZERS, 7)
    assert {(one.place[1], one.reason) for one in store.refusals} == {(1, "unknown_card"), (2, "duplicate")}


def test_an_analyzer_that_begins_rebuilds_its_history_and_scores_only_what_arrives_from_then_on(
    events: Path, broker: Broker
) -> None:
    for n in range(9):
        broker.put(SETTINGS.topic, **transaction(n))
        broker.topics[SETTINGS.topic][-1].at_ms -= 10_000 if n == 0 else 100
    turns = iter(range(6))

    def going() -> bool:
        if (turn := next(turns, None)) == 3:
            broker.put(SETTINGS.topic, **transaction(20))
            broker.put(SETTINGS.topic, **transaction(21, amount_cents=-1))
        return turn is not None

    analyze.run(SETTINGS, "count", going)
    scores = [orjson.loads(one.value() or b"") for one in broker.topics[SETTINGS.scores]]
    assert scores == [{"offset": 9, "analyzer": "count", "points": 60}], "eight before it in the window"
    told = [orjson.loads(line) for line in events.read_bytes().splitlines()]
    assert [one["state"] for one in told] == ["started", "rebuilt"]
    assert told[1]["transactions"] == 8
    assert told[1]["youngest_ms"] >= 100
