"""A run without servers whose records come from two gateways: their words, and a chain that heeds them or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from effectively_once.driver.clock import Silence
from effectively_once.sources.statement import Statement
from effectively_once.sources.statements import Pending
from tests.harness.checkers.case import Case
from tests.harness.checkers.reference import replay
from tests.harness.checkers.statements import Said
from tests.harness.checkers.watermark import Watermark
from tests.harness.evidence import Clock, EpochRecord, Settings
from tests.harness.sends import Send
from tests.harness.spread import PARTITIONS
from tests.harness.subject import unpaced
from tests.harness.workload.gateways import GATEWAYS, Gateways, gateway_of
from tests.harness.workload.held_back import HeldBack
from tests.harness.workload.record import Planned, partition_of
from tests.harness.workload.seeded import closers, in_every_partition
from tests.unit.harness.epochs import record_of

RATE, EPOCH_MS, AWAY_FROM_S, AWAY_S, AWAY = 250, 1_500, 20, 41, GATEWAYS[1]


@cache
def _stream() -> tuple[int, list[Planned]]:
    subject = unpaced(5, 20_000, RATE)
    return subject.disorder_ms, [one for one in subject.records() if one.gate is None]


@dataclass
class GatewayWorld:
    """Twenty minutes of the stream in 80 s, of which a gateway is away for 41 s: it is back between two epochs.

    Attributes:
        hold_max_ms: of the pipeline.
        bends: changes the clock that an epoch pins: a driver that does not heed it.
        runs_ahead_ms: by how much gateways say more than is true.
    """

    hold_max_ms: int = 600_000
    bends: Callable[[int, Clock], Clock] = lambda _, clock: clock
    runs_ahead_ms: int = 0
    held: HeldBack = field(default_factory=HeldBack)
    now_ms: int = 0
    sends: list[Send] = field(default_factory=list)
    sent_at: list[int] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    epochs: list[EpochRecord] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        disorder_ms, records = _stream()
        self.gateways = Gateways(disorder_ms, self.held.holds, self._hear, SimpleNamespace(write=lambda _: 0))
        self._pending, self._due = Pending("events", GATEWAYS), Watermark()
        self._silence = Silence(self.hold_max_ms, lambda: self.now_ms / 1000)
        self._read, self._ends, self._times = [0] * PARTITIONS, [0] * PARTITIONS, dict[str, int]()
        self._words = dict[str, int]()
        for number, record in enumerate(records):
            self._turn(number, record)
        self.gateways.all_taken()
        high = max(record.event_time_ms or 0 for record in records)
        for closer in in_every_partition(closers(high, 10**6)[0], PARTITIONS):
            self.gateways.take(closer, self._gateway(closer))
            self._send(closer)
            self.gateways.state()
            self.now_ms += EPOCH_MS
            self._epoch()
        self._epoch()

    @property
    def case(self) -> Case:
        """What a judge reads of it."""
        settings = Settings(window_ms=60_000, lateness_ms=120_000, gateways=GATEWAYS, hold_max_ms=self.hold_max_ms)
        reference = replay(self.sends, self.epochs, 60_000, 120_000)
        case: Any = SimpleNamespace(
            sends=self.sends,
            reference=reference,
            chain=SimpleNamespace(pinned=self.epochs),
            events=self.events,
            manifest=SimpleNamespace(settings=settings),
            run=SimpleNamespace(path=Path("none")),
            sent_at=self.sent_at,
            acked_at=self.sent_at,
        )
        return case  # type: ignore[no-any-return]

    def _turn(self, number: int, record: Planned) -> None:
        self.now_ms = 1_000 * number // RATE
        if number == AWAY_FROM_S * RATE:
            self.held.hold(AWAY)
        if number == (AWAY_FROM_S + AWAY_S) * RATE:
            self.held.let_go(AWAY)
            about = {"process_before": f"gateway {AWAY}", "held_s": float(AWAY_S), "target": "gateway"}
            self.events.append({"event": "fault", "t": self.now_ms, **about})
        self.gateways.take(record, self._gateway(record))
        if not self.held.keep(record, self._gateway(record)):
            self._send(record)
        for one in self.held.take():
            self._send(one)
        if number % (RATE // 2) == 0:
            self.gateways.state()
        if self.now_ms // EPOCH_MS > len(self.epochs):
            self._epoch()

    def _gateway(self, record: Planned) -> str:
        return gateway_of(record, PARTITIONS)

    def _send(self, one: Planned) -> None:
        partition = partition_of(one, PARTITIONS)
        offset, gateway = self._ends[partition], self._gateway(one)
        self._ends[partition] += 1
        told = (one.id, one.user, one.event_time_ms, one.crc, one.kind, one.reason)
        place, value = ("events", partition, offset), one.value.decode(errors="replace")
        self.sends.append(Send(*told, *place, value, "utf-8", gateway))
        self.sent_at.append(self.now_ms)
        self.gateways.acknowledge(one, gateway, partition, offset)

    def _hear(self, said: Statement, _: Callable[[], object]) -> None:
        said = said.model_copy(update={"time_ms": said.time_ms + self.runs_ahead_ms})
        offsets = {int(partition): end for partition, end in said.offsets.items()}
        self.said.append(Said(self.now_ms, said.source, said.time_ms, offsets, self.now_ms))
        self._pending.hear(said)

    def _epoch(self) -> None:
        read = {"events": {str(partition): (0, end) for partition, end in enumerate(self._read)}}
        before, words = {**self._times}, self._words
        self._times |= self._pending.take_passed(read)
        self._words = {**self._pending.latest}
        times = {name: self._times.get(name) for name in GATEWAYS}
        gone = self._silence.hear(
            {name: times[name] != before.get(name) or self._words.get(name) != words.get(name) for name in GATEWAYS}
        )
        clock = self.bends(self.now_ms, Clock(sources=times, released=tuple(sorted(gone))))
        ranges = {"events": dict(enumerate(zip(self._read, self._ends, strict=True)))}
        number = len(self.epochs)
        record = record_of(number, ranges=ranges, clock=clock)
        record = record.model_copy(update={"watermark_ms": self._due.due(record)})
        self.epochs.append(record)
        self.events.append({"event": "epoch", "state": "declared", "epoch": number, "t": self.now_ms})
        for one in self.sends[sum(self._read) :]:
            if one.event_time_ms is not None and one.kind != "malformed":
                self._due.show(record, ("events", one.partition), one.event_time_ms, accepted=True)
        self._due.end(record)
        self._read = [*self._ends]
