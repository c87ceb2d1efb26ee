"""An unpaced sender waits for nobody, and what it sends is in time by partition, however much a partition lags."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.harness.spread import PARTITIONS
from tests.harness.subject import unpaced
from tests.harness.workload.errors import InputError, SendStalled
from tests.harness.workload.held_back import HeldBack
from tests.harness.workload.progress import Progress
from tests.harness.workload.record import Planned, is_late, partition_of, partition_of_user, well_formed
from tests.harness.workload.seeded import closers, in_every_partition, settler
from tests.harness.workload.sender import Target
from tests.harness.workload.unpaced import Aside, Turns
from tests.unit.workload.test_sender import UNPACED, Broker, Run

FAST = 1_000_000.0
USERS = {partition_of_user(f"u{n}", 4): f"u{n}" for n in range(40)}


@dataclass
class Sending:
    """A sender at a rate, and what it wrote."""

    seen: list[Progress] = field(default_factory=lambda: [Progress()])
    held: HeldBack = field(default_factory=HeldBack)
    broker: Broker = field(default_factory=Broker)
    lines: list[dict[str, Any]] = field(default_factory=list)

    def send(self, records: Any, rate: float = FAST, progress: Callable[[], Progress] | None = None) -> bool:
        ask = progress or (lambda: self.seen[-1])
        run = Run(self.broker, ask, pace=UNPACED, target=Target(deadline_s=0.3), lines=self.lines)
        return run.sender().send_unpaced(records, rate, self.held)

    @property
    def order(self) -> list[int]:
        return [line["n"] for line in self.lines]


def of(n: int, partition: int, time_ms: int = 1_000, **more: Any) -> Planned:
    return well_formed(n, f"id-{n}", USERS[partition], time_ms, "x", **more)


def test_records_go_on_while_the_chain_stands_still_and_say_when_they_were_acknowledged() -> None:
    sending = Sending()
    assert sending.send(of(n, n % 4, 10**6 * n) for n in range(400))
    assert sending.order == list(range(400))
    assert all(line["sent_at"] <= line["acked_at"] for line in sending.lines)


def test_a_late_record_keeps_nobody_waiting_and_is_sent_once_its_gate_is_open() -> None:
    sending = Sending()

    def records() -> Any:
        yield of(0, 0, gate=5_000, kind="late")
        yield from (of(n, n % 4) for n in range(1, 50))
        sending.seen.append(Progress(watermark_ms=5_000))

    assert sending.send(records())
    assert sending.order == [*range(1, 50), 0]


def test_a_gate_that_never_opens_stalls_after_the_last_turn_alone() -> None:
    sending = Sending()
    with pytest.raises(SendStalled, match="to send late records"):
        sending.send([of(0, 0, gate=5_000, kind="late"), of(1, 1)])
    assert sending.order == [1]


def test_what_is_held_comes_after_all_else_in_its_order_and_before_what_follows_it() -> None:
    sending = Sending()
    sending.held.hold(2)

    def records() -> Any:
        yield from (of(n, n % 4) for n in range(40))
        assert not any(line["partition"] == 2 for line in sending.lines)
        assert sending.held.kept(2) == 10
        sending.held.let_go(2)
        yield from (of(n, n % 4) for n in range(40, 80))

    assert sending.send(records())
    assert sorted(sending.order) == list(range(80))
    assert [n for n in sending.order if n % 4 == 2] == list(range(2, 80, 4))
    assert sending.held.empty


@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_late_record_is_sent_though_the_outage_outlasts_all_others(after: int) -> None:
    """Nothing is sent any more that would have an epoch declared with the time that came of the last records."""
    sending, epochs = Sending(), list[Progress]()
    sending.held.hold(1)

    def progress() -> Progress:
        ends = sending.broker.ends()
        if not epochs or ends != epochs[-1].ends:
            # Of all partitions the time is known once they were read, and a word of it that many epochs later.
            watermark = 9_000 if len(epochs) > after and len(sending.broker.log[1]) else 1_000
            epochs.append(Progress(watermark, ends))
        return epochs[-1]

    def records() -> Any:
        yield of(0, 0)
        yield of(1, 0, gate=5_000, kind="late")
        yield of(2, 1, 9_000)
        sending.held.let_go(1)

    assert sending.send(records(), progress=progress)
    assert sending.order[-1] == 1
    kinds = [line["kind"] for line in sending.lines]
    assert kinds[:2] == ["fresh", "fresh"]
    assert kinds[2:-1] == ["closer"] * (len(kinds) - 3)
    assert len({line["id"] for line in sending.lines if line["kind"] == "closer"}) <= 1


def test_a_partition_that_nobody_lets_go_ends_the_run() -> None:
    sending = Sending()
    sending.held.hold(0)
    with pytest.raises(SendStalled, match="partitions and gateways that are held to be let go"):
        sending.send([of(0, 0)])


def test_turns_come_at_the_rate_and_who_is_behind_catches_up() -> None:
    now = [0.0]
    turns = Turns(4.0, lambda: now[0])
    assert turns.left_s() == 0
    turns.take()
    assert turns.left_s() == 0.25
    now[0] = 1.0
    for _ in range(3):
        assert turns.left_s() <= 0
        turns.take()
    assert turns.left_s() == 0
    with pytest.raises(InputError, match="rate is 0 records/s"):
        Turns(0.0)


def test_what_stands_aside_is_taken_once() -> None:
    aside = Aside()
    for n, gate in enumerate((30, 10, 20)):
        aside.put(of(n, 0, gate=gate))
    assert aside.take(None) == []
    assert [one.n for one in aside.take(20)] == [1, 2]
    assert aside.take(20) == []
    assert [one.n for one in aside.rest()] == [0]
    assert aside.rest() == []


def test_the_first_partition_has_a_hundred_times_the_records_of_another() -> None:
    records = list(unpaced(3, 40_000, 250, 100).records())
    counts = [0] * PARTITIONS
    for record in records:
        counts[partition_of(record, PARTITIONS)] += record.kind == "fresh"
    assert all(80 <= counts[0] / count <= 125 for count in counts[1:]), counts


def test_what_closes_windows_goes_to_every_partition_and_one_more() -> None:
    first, _ = closers(1_000_000, 7)
    for last in (first, settler(1_000_000, 7)):
        made = list(in_every_partition(last, PARTITIONS))
        assert [partition_of(one, PARTITIONS) for one in made] == [*range(PARTITIONS), 0]
        assert {(one.event_time_ms, one.kind, one.settled) for one in made} == {(last.event_time_ms, "closer", True)}
        assert len({one.id for one in made}) == PARTITIONS + 1


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(1, 6))])
def test_no_record_in_time_is_late_by_partition_whatever_lags_and_by_the_largest_time_seen_some_are(seed: int) -> None:
    by_partition, anywhere = Chain(seed), Chain(seed, by_partition=False)
    for chain in (by_partition, anywhere):
        chain.play(unpaced(seed, 20_000, 250, 100).records())
    assert by_partition.read == anywhere.read > 19_000
    assert by_partition.late == 0
    assert anywhere.late > 100


@dataclass
class Chain:
    """Epochs that read what they like of each partition, of which one or another lags for ten minutes of its time."""

    seed: int
    by_partition: bool = True
    late: int = 0
    read: int = 0
    watermark: int | None = None
    shown: list[int] = field(default_factory=lambda: [-1] * PARTITIONS)

    def play(self, records: Any) -> None:
        rng = random.Random(self.seed)
        logs: list[list[Planned]] = [[] for _ in range(PARTITIONS)]
        kept: list[Planned] = []
        at = [0] * PARTITIONS
        held, until = -1, 0
        for number, record in enumerate(one for one in records if one.kind in ("fresh", "duplicate")):
            if number == until:
                logs[held] += kept
                held, until, kept = rng.randrange(PARTITIONS), number + 10_000, []
            place = partition_of(record, PARTITIONS)
            (kept if place == held else logs[place]).append(record)
            if rng.random() < 0.002:
                self._epoch(logs, at, [rng.randint(one, len(log)) for one, log in zip(at, logs, strict=True)])
        logs[held] += kept
        self._epoch(logs, at, [len(log) for log in logs])

    def _epoch(self, logs: list[list[Planned]], at: list[int], ends: list[int]) -> None:
        times = [one for one in self.shown if one >= 0]
        if self.by_partition:
            times = [min(self.shown)] if len(times) == PARTITIONS else []
        pinned = max([*times, *([] if self.watermark is None else [self.watermark])], default=None)
        self.watermark = pinned
        for place, (log, end) in enumerate(zip(logs, ends, strict=True)):
            for record in log[at[place] : end]:
                assert record.event_time_ms is not None
                self.read += 1
                self.late += is_late(record.event_time_ms, pinned, 60_000, 120_000)
                self.shown[place] = max(self.shown[place], record.event_time_ms)
            at[place] = end
