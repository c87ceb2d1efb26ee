"""Sends a plan to Kafka no faster than the pacer allows, and writes down what the broker acknowledged."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from confluent_kafka import KafkaException, Producer

from effectively_once.kafka_client import client_config
from effectively_once.pipeline.sinks import MESSAGE_BYTES
from tests.harness.workload.errors import SendStalled
from tests.harness.workload.gateways import Gateways, Lines, gateway_of
from tests.harness.workload.held_back import HeldBack
from tests.harness.workload.pacing import Pacer
from tests.harness.workload.progress import Progress
from tests.harness.workload.record import Planned, line_of, partition_of
from tests.harness.workload.seeded import settler
from tests.harness.workload.unpaced import Aside, Look, Turns

POLL_S = 0.05


class KafkaProducer(Protocol):
    """The part of confluent_kafka.Producer that is used."""

    def produce(
        self, topic: str, value: bytes, key: bytes | None, partition: int, on_delivery: Callable[[Any, Any], None]
    ) -> None:
        """Queue a record; raises BufferError when the queue is full."""

    def poll(self, timeout: float) -> int:
        """Serve delivery callbacks."""

    def flush(self, timeout: float) -> int:
        """Wait for everything queued; the number still queued is returned."""


@dataclass(frozen=True, slots=True)
class Target:
    """Topic, its number of partitions, and how long (s) one wait may take before the run counts as stalled."""

    topic: str = "events"
    partitions: int = 4
    deadline_s: float = 180.0


def kafka_producer(bootstrap: str, extra: Mapping[str, Any] | None = None) -> KafkaProducer:
    """Create an idempotent producer: an acknowledged record is in the log once, whatever was retried.

    `extra` are further settings of librdkafka.
    """
    producer: KafkaProducer = Producer(
        {
            **client_config(bootstrap),
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 5,
            "compression.type": "lz4",
            "delivery.timeout.ms": 120_000,
            "message.max.bytes": MESSAGE_BYTES,  # what a topic of a run takes; the client's own limit is 1 MB
            "log_level": 3,  # a broker that just started says "load in progress" and is asked again
            **(extra or {}),
        }
    )
    return producer


class Sender:
    """Sends planned records in order; used by one thread, its counters may be read by others.

    `ends`: offset after the last acknowledged record, by partition.

    `lines` gets one line for each acknowledged record, `unacknowledged` each record given up with the broker's error
    (it may or may not be in the log), `progress` reads the chain and is asked only while the sender has to wait.
    `gateways`: registered sources that the records come from; None: nobody says how far they are.
    """

    def __init__(
        self,
        producer: KafkaProducer,
        lines: Lines,
        pacer: Pacer,
        progress: Callable[[], Progress],
        *,
        unacknowledged: Callable[[Planned, str], None],
        stop: threading.Event,
        target: Target | None = None,
        gateways: Gateways | None = None,
    ) -> None:
        self.target = target or Target()
        self.acknowledged = 0
        self.failed = 0
        self.ends: dict[int, int] = {}
        self._producer, self._lines, self._pacer, self._progress = producer, lines, pacer, progress
        self._unacknowledged, self._stop = unacknowledged, stop
        self._seen = Progress()
        self._queued = 0
        self._tells_acks = False
        self._gateways = gateways

    @property
    def last_event_time_ms(self) -> int | None:
        """Largest event time (ms) sent by a record in time: where the closers start from."""
        return self._pacer.high_ms

    def send(self, records: Iterable[Planned]) -> bool:
        """Send all records and wait for the broker's answers; False when `stop` was set before the end.

        Raises SendStalled when the pacer, a gate, a record's turn or the broker keeps it waiting past the deadline.
        """
        for record in records:
            if not self._wait_for_turn(record) or not self._queue(self._take(record)):
                self._flush()
                return False
        self._flush()
        return True

    def send_unpaced(self, records: Iterable[Planned], rate: float, held: HeldBack) -> bool:
        """Send all records at a rate (records/s), whatever the chain and its servers do; False when `stop` was set.

        Late ones wait aside until the chain has passed their gate; those of partitions and gateways that are held wait
        in `held`.
        From now on lines tell when a record was acknowledged. Raises SendStalled as `send` does, for the chain alone
        after the last turn.
        """
        turns, aside, self._tells_acks = Turns(rate), Aside(), True
        with Look(self._progress) as look:
            for record in records:
                if record.gate is not None:
                    aside.put(record)
                    continue
                if not self._wait_until(turns) or not self._queue_or_keep(record, held):
                    self._flush()
                    return False
                turns.take()
                self._pacer.release(look.seen.ends)
                for one in (*held.take(), *aside.take(look.seen.watermark_ms)):
                    if not self._queue(one):
                        return False
        # The workload is over: from here on somebody has to come back.
        if self._gateways is not None:
            self._gateways.all_taken()
        if not self._wait("partitions and gateways that are held to be let go", lambda: self._take_all(held)):
            return False
        late = aside.rest()
        return self._move_time(late) and self.send(late)

    def resend(self, records: Iterable[Planned]) -> bool:
        """Send byte copies of records sent before, as kind `resent`, each to its old partition.

        The records come from the same plan again (same seed and shape, or same file); `n` is that of the original.
        None of them is accepted again, so nothing waits for the chain: the pipeline may be stopped meanwhile.
        """
        for record in records:
            if self._stop.is_set() or not self._queue(replace(record, kind="resent", gate=None, settled=False)):
                self._flush()
                return False
        self._flush()
        return True

    def wait_until_declared(self) -> bool:
        """Wait until everything sent lies in a declared epoch; False when `stop` was set. Raises SendStalled."""
        self._flush()
        return self._wait("a declared epoch that holds everything sent", lambda: self._pacer.outstanding == 0)

    def _move_time(self, late: Sequence[Planned]) -> bool:
        """Have epochs declared until the gates of late records are open; False when `stop` was set.

        An epoch pins the time that those before it have shown, and there is none without a record. After an outage
        that outlasts the workload nothing else would be sent: so one record is, again and again, each time that all
        before it is in a declared epoch.
        """
        gate, latest = max((one.gate or 0 for one in late), default=None), self.last_event_time_ms

        def is_open() -> bool:
            if gate is None or (self._seen.watermark_ms is not None and self._seen.watermark_ms >= gate):
                return True
            if latest is not None and self._pacer.outstanding == 0:
                self._queue(self._take(settler(latest, late[-1].n)))
            return False

        return self._wait(f"a declared watermark of at least {gate} ms, to send late records", is_open)

    def _wait_for_turn(self, record: Planned) -> bool:
        if self._stop.is_set():
            return False
        if record.settled and not self.wait_until_declared():
            return False
        moving = record.event_time_ms if record.moves_watermark else None
        if not self._pacer.may_send(moving) and not self._wait(
            f"the chain to declare epochs, so that record {record.n} ({record.id}) is within the sending horizon",
            lambda: self._pacer.may_send(moving),
        ):
            return False
        gate = record.gate
        return gate is None or self._wait(
            f"a declared watermark of at least {gate} ms, to send late record {record.n} ({record.id})",
            lambda: self._seen.watermark_ms is not None and self._seen.watermark_ms >= gate,
        )

    def _wait_until(self, turns: Turns) -> bool:
        """Wait for a turn, and hear what the broker answers meanwhile; False when `stop` was set."""
        while not self._stop.is_set():
            left_s = turns.left_s()
            self._producer.poll(max(0.0, min(left_s, POLL_S)))
            if left_s <= POLL_S:
                return True
        return False

    def _queue_or_keep(self, record: Planned, held: HeldBack) -> bool:
        self._take(record)
        gateway = self._gateway(record)
        names = (partition_of(record, self.target.partitions), *(() if gateway is None else (gateway,)))
        return held.keep(record, *names) or self._queue(record)

    def _gateway(self, record: Planned) -> str | None:
        return None if self._gateways is None else gateway_of(record, self.target.partitions)

    def _take(self, record: Planned) -> Planned:
        if self._gateways is not None:
            self._gateways.take(record, gateway_of(record, self.target.partitions))
        return record

    def _take_all(self, held: HeldBack) -> bool:
        for one in held.take():
            if not self._queue(one):
                return False
        return held.empty

    def _wait(self, what: str, holds: Callable[[], bool]) -> bool:
        deadline = time.monotonic() + self.target.deadline_s
        while not holds():
            self._producer.poll(0)
            self._seen = self._progress()
            self._pacer.release(self._seen.ends)
            if holds():
                break
            if time.monotonic() > deadline:
                raise SendStalled(
                    f"sending to topic {self.target.topic} waited {self.target.deadline_s:g} s for {what}: "
                    f"{self.acknowledged} acknowledged, {self._queued} at the broker, {self._pacer.outstanding} not "
                    f"yet in a declared epoch; last seen of the chain: watermark {self._seen.watermark_ms}, ends "
                    f"{dict(self._seen.ends)}. Look at the driver's log: it has stopped declaring epochs"
                )
            if self._stop.wait(POLL_S):
                return False
        return True

    def _queue(self, record: Planned) -> bool:
        """Hand a record to the producer; False when `stop` was set while its queue was full."""
        deliver = self._delivery(record)
        partition = partition_of(record, self.target.partitions)
        deadline = time.monotonic() + self.target.deadline_s
        while True:
            try:
                self._producer.produce(self.target.topic, record.value, record.key, partition, on_delivery=deliver)
            except BufferError:
                if self._stop.is_set():
                    return False
                if time.monotonic() > deadline:
                    raise SendStalled(self._broker_stall()) from None
                self._producer.poll(POLL_S)
            except KafkaException as error:
                raise SendStalled(
                    f"the producer refused record {record.n} ({record.id}, {len(record.value)} bytes) for topic "
                    f"{self.target.topic} partition {partition}: {error}. "
                    "Look at the topic's settings and at the broker's log"
                ) from error
            else:
                self._queued += 1
                self._producer.poll(0)
                return True

    def _delivery(self, record: Planned) -> Callable[[Any, Any], None]:
        moving = record.event_time_ms if record.moves_watermark else None
        # Noted before the record is handed over: its callback may run inside that very call.
        entry = self._pacer.begin(moving)
        sent_at, gateway = time.time_ns() // 1_000_000, self._gateway(record)

        def delivered(error: Any, message: Any) -> None:
            self._queued -= 1
            if error is not None:
                self._pacer.give_up(entry)
                self.failed += 1
                if self._gateways is not None:
                    self._gateways.give_up(record, gateway or "")
                self._unacknowledged(record, str(error))
                return
            partition, offset = message.partition(), message.offset()
            self._pacer.acknowledge(entry, partition, offset)
            self.acknowledged += 1
            self.ends[partition] = max(self.ends.get(partition, 0), offset + 1)
            acked_at = time.time_ns() // 1_000_000 if self._tells_acks else None
            self._lines.write(
                line_of(record, message.topic(), partition, offset, sent_at, acked_at=acked_at, gateway=gateway)
            )
            # Last: what a gateway vouches for is written down.
            if self._gateways is not None:
                self._gateways.acknowledge(record, gateway or "", partition, offset)

        return delivered

    def _flush(self) -> None:
        if self._producer.flush(self.target.deadline_s):
            raise SendStalled(self._broker_stall())

    def _broker_stall(self) -> str:
        return (
            f"sending to topic {self.target.topic} waited {self.target.deadline_s:g} s for the broker to acknowledge "
            f"{self._queued} records ({self.acknowledged} were): look at the broker's log"
        )
