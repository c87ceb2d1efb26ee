"""The sender: order, gates, acknowledgements and deadlines, against a broker in memory and librdkafka's mock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.harness.sends import KINDS, send_of
from tests.harness.workload.errors import SendStalled
from tests.harness.workload.pacing import Pace, Pacer
from tests.harness.workload.progress import Progress
from tests.harness.workload.record import Planned, partition_of, well_formed
from tests.harness.workload.seeded import Seeded, closers
from tests.harness.workload.sender import Sender, Target, kafka_producer
from tests.harness.workload.shape import Shape

SHAPE_END = Shape().first_ms + Shape().span_ms
SHORT = Target(deadline_s=0.2)
UNPACED = Pace(horizon_ms=None, max_outstanding=10**6)


@dataclass
class Broker:
    """A log of four partitions that acknowledges on poll; `refuse` names ids that never get in."""

    room: int = 1_000_000
    refuse: frozenset[str] = frozenset()
    mute: bool = False
    log: list[list[tuple[bytes | None, bytes]]] = field(default_factory=lambda: [[], [], [], []])
    waiting: list[Callable[[], None]] = field(default_factory=list)

    def produce(
        self, topic: str, value: bytes, key: bytes | None, partition: int, on_delivery: Callable[[Any, Any], None]
    ) -> None:
        if len(self.waiting) >= self.room:
            raise BufferError
        if any(f'"{id_}"'.encode() in value for id_ in self.refuse):
            self.waiting.append(lambda: on_delivery("timed out", None))
            return
        offset = len(self.log[partition])
        self.log[partition].append((key, value))
        place = SimpleNamespace(topic=lambda: topic, partition=lambda: partition, offset=lambda: offset)
        self.waiting.append(lambda: on_delivery(None, place))

    def poll(self, timeout: float) -> int:
        if self.mute:
            return 0
        served, self.waiting = self.waiting, []
        for serve in served:
            serve()
        return len(served)

    def flush(self, timeout: float) -> int:
        self.poll(timeout)
        return len(self.waiting)

    def ends(self) -> dict[int, int]:
        return {partition: len(log) for partition, log in enumerate(self.log)}


@dataclass
class Run:
    """A sender with everything it was given."""

    broker: Broker
    progress: Callable[[], Progress]
    pace: Pace = field(default_factory=Pace)
    target: Target = field(default_factory=Target)
    lines: list[dict[str, Any]] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    """How many records the broker had whenever the sender asked how far the chain is."""
    lost: list[tuple[Planned, str]] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def ask(self) -> Progress:
        self.asked.append(sum(self.broker.ends().values()))
        return self.progress()

    def sender(self, producer: Any = None, **more: Any) -> Sender:
        lines = SimpleNamespace(write=self.lines.append)
        return Sender(
            producer or self.broker,
            lines,
            Pacer(self.pace),
            self.ask,
            unacknowledged=lambda record, error: self.lost.append((record, error)),
            stop=self.stop,
            target=self.target,
            **more,
        )


def at(n: int, event_time_ms: int, **more: Any) -> Planned:
    return well_formed(n, f"id-{n}", "u1", event_time_ms, "x", **more)


def test_every_acknowledged_record_has_its_line_in_partition_order() -> None:
    shape = Shape(records=2_000, late=0, straddling=0)
    plan = list(Seeded(7, shape))
    broker = Broker()
    run = Run(broker, lambda: Progress(None, broker.ends()))
    sender, started = run.sender(), int(time.time() * 1_000)
    assert sender.send(plan)
    assert sender.acknowledged == len(run.lines) == 2_000
    assert sender.ends == broker.ends()
    assert sender.last_event_time_ms == max(record.event_time_ms or 0 for record in plan if record.kind == "fresh")
    by_number = {line["n"]: line for line in run.lines}
    for record in plan:
        line = by_number[record.n]
        assert line["partition"] == partition_of(record, 4)
        assert broker.log[line["partition"]][line["offset"]] == (record.key, record.value)
        for name in ("id", "user", "event_time_ms", "payload", "crc", "kind", "reason"):
            assert line[name] == getattr(record, name)
        assert line["topic"] == "events"
        assert started <= line["sent_at"] <= time.time() * 1_000
        assert ("value" in line) == (record.kind == "malformed")


def test_the_bytes_of_malformed_records_are_kept_as_text_or_base64() -> None:
    broken = [
        Planned(n, None, None, None, None, None, "malformed", "not_json", None, value)
        for n, value in enumerate((b"caf\xc3\xa9", b"\xff\xfe"))
    ]
    broker = Broker()
    run = Run(broker, Progress)
    assert run.sender().send(broken)
    assert [line["value"] for line in run.lines] == ["café", "//4="]
    assert [line["encoding"] for line in run.lines] == ["utf-8", "base64"]


def test_it_waits_for_the_chain_at_the_horizon() -> None:
    broker = Broker()
    run = Run(broker, lambda: Progress(None, broker.ends() if len(run.asked) > 2 else {}))
    assert run.sender().send([at(0, 0), at(1, 80_000), at(2, 80_001), at(3, 90_000)])
    assert run.asked == [2, 2, 2], "asked only while waiting, with two records out"


def test_a_late_record_waits_for_its_gate() -> None:
    broker, watermarks = Broker(), iter([None, 179_999, 180_000])
    run = Run(broker, lambda: Progress(next(watermarks), broker.ends()))
    assert run.sender().send([at(0, 1_000), at(1, 5, kind="late", gate=180_000), at(2, 6, kind="late", gate=180_000)])
    assert run.asked == [1, 1, 1]
    assert [line["kind"] for line in run.lines] == ["fresh", "late", "late"]


def test_each_closer_waits_until_a_declared_epoch_holds_what_came_before() -> None:
    broker = Broker()
    # Every second look shows an epoch more.
    run = Run(broker, lambda: Progress(None, broker.ends() if len(run.asked) % 2 == 0 else {}))
    assert run.sender().send([at(0, 1_000), *closers(1_000, 1)])
    assert run.asked == [1, 1, 2, 2]


def test_records_given_up_are_reported_and_hold_nobody_back() -> None:
    broker = Broker(refuse=frozenset({"id-0"}))
    run = Run(broker, Progress)
    sender = run.sender()
    assert sender.send([at(0, 0), at(1, 10**9)])
    assert (sender.acknowledged, sender.failed) == (1, 1)
    assert [(record.id, error) for record, error in run.lost] == [("id-0", "timed out")]
    assert [line["id"] for line in run.lines] == ["id-1"]


def test_a_full_queue_is_waited_out() -> None:
    broker = Broker(room=1)
    run = Run(broker, Progress)
    assert run.sender().send(at(n, n) for n in range(50))
    assert len(run.lines) == 50


@pytest.mark.parametrize(
    ("records", "says"),
    [
        ([at(0, 0), at(1, 80_001)], r"waited 0.2 s for the chain to declare epochs, so that record 1 \(id-1\).*1 not"),
        ([at(0, 0), at(1, 0, kind="late", gate=180_000)], r"declared watermark of at least 180000 ms.*watermark 77"),
        ([at(0, 0), *closers(0, 1)], "a declared epoch that holds everything sent"),
    ],
)
def test_a_chain_that_stands_still_is_named(records: list[Planned], says: str) -> None:
    run = Run(Broker(), lambda: Progress(77, {}), target=SHORT)
    with pytest.raises(SendStalled, match=says):
        run.sender().send(records)


@pytest.mark.parametrize(("room", "waiting"), [(1_000_000, 2), (1, 1)])
def test_a_broker_that_stands_still_is_named(room: int, waiting: int) -> None:
    run = Run(Broker(mute=True, room=room), Progress, target=SHORT)
    with pytest.raises(SendStalled, match=rf"waited 0.2 s for the broker to acknowledge {waiting} records"):
        run.sender().send([at(0, 0), at(1, 1)])


def test_a_record_the_producer_refuses_is_named() -> None:
    class Refusing(Broker):
        def produce(self, *_: Any, **__: Any) -> None:
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))

    with pytest.raises(SendStalled, match=r"refused record 0 \(id-0, \d+ bytes\) for topic events partition \d"):
        Run(Refusing(), Progress).sender().send([at(0, 0)])


def test_stop_ends_a_wait_and_keeps_what_was_acknowledged() -> None:
    broker = Broker()
    run = Run(broker, lambda: run.stop.set() or Progress())  # type: ignore[func-returns-value]
    assert not run.sender().send([at(0, 0), at(1, 80_001)])
    assert [line["id"] for line in run.lines] == ["id-0"]
    assert not run.sender().send([at(2, 0)])
    assert not run.sender().resend([at(2, 0)])
    assert len(run.lines) == 1


def test_resend_sends_the_same_bytes_to_the_same_partitions_in_lines_that_the_checkers_read() -> None:
    plan = [*Seeded(7, Shape(records=2_000)), *closers(SHAPE_END, 2_000)]

    broker = Broker()
    run = Run(broker, lambda: Progress(10**15, broker.ends()))
    sender = run.sender()
    assert sender.send(plan)
    before = {partition: list(log) for partition, log in enumerate(broker.log)}
    high = sender.last_event_time_ms
    assert sender.resend([*Seeded(7, Shape(records=2_000)), *closers(SHAPE_END, 2_000)])
    assert {partition: log[len(before[partition]) :] for partition, log in enumerate(broker.log)} == before
    again = run.lines[2_002:]
    assert {line["kind"] for line in again} == {"resent"}
    assert [line["reason"] for line in again] == [record.reason for record in plan]
    assert [line["n"] for line in again] == list(range(2_002))
    assert sender.last_event_time_ms == high
    sends = [send_of(orjson.loads(orjson.dumps(line))) for line in run.lines]
    assert len(sends) == 4_004
    assert {send.kind for send in sends} == set(KINDS)


def test_resending_needs_no_chain_and_can_be_waited_for() -> None:
    broker = Broker()
    declared: dict[int, int] = {}
    run = Run(broker, lambda: Progress(None, declared), pace=Pace(max_outstanding=2), target=SHORT)
    sender, plan = run.sender(), [at(n, n) for n in range(5)]
    assert sender.resend(plan)
    with pytest.raises(SendStalled, match="5 not yet in a declared epoch"):
        sender.wait_until_declared()
    declared.update(broker.ends())
    assert sender.wait_until_declared()


def test_the_real_producer_acknowledges_with_coordinates() -> None:
    shape = Shape(records=3_000, late=0, straddling=0)
    run = Run(Broker(), lambda: Progress(None, sender.ends), target=Target(deadline_s=30))
    sender = run.sender(kafka_producer("unused", {"test.mock.num.brokers": 1, "log_level": 0}))
    assert sender.send(Seeded(7, shape))
    assert (sender.acknowledged, sender.failed) == (3_000, 0)
    assert sum(sender.ends.values()) == 3_000
    coordinates = {(line["partition"], line["offset"]) for line in run.lines}
    assert coordinates == {(partition, offset) for partition, end in sender.ends.items() for offset in range(end)}
    assert {line["partition"] for line in run.lines} == {0, 1, 2, 3}


def test_the_real_producer_takes_what_a_topic_of_a_run_takes() -> None:
    """A row of a megabyte with its quotes escaped: more than a client takes unless it is told to."""
    producer = kafka_producer("unused", {"test.mock.num.brokers": 1, "log_level": 0})
    run = Run(Broker(), lambda: Progress(None, {}), target=Target(deadline_s=30))
    assert run.sender(producer).send([well_formed(0, "row-1", "k" * 1_000_000, 1, '"' * 1_000_000)])
    assert [(line["id"], line["offset"]) for line in run.lines] == [("row-1", 0)]
    with pytest.raises(SendStalled, match=r"the producer refused record 0 .* 13000\d\d\d bytes"):
        run.sender(producer).send([well_formed(0, "row-1", "k", 1, "x" * 13_000_000)])
